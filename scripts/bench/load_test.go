//go:build linux

package main

import (
	"errors"
	"os"
	"os/exec"
	"slices"
	"sync"
	"testing"
	"time"
)

func TestHammer_makes_every_call_once(t *testing.T) {
	t.Parallel()
	var mu sync.Mutex
	var made []int
	took, err := runCalls(4, 100, func(_, n int) error {
		mu.Lock()
		defer mu.Unlock()
		made = append(made, n)
		return nil
	})
	slices.Sort(made)
	if err != nil || len(took) != 100 || len(made) != 100 || made[0] != 0 || len(slices.Compact(made)) != 100 {
		t.Errorf("got %d durations and calls %v, %v; want 100 different ones", len(took), made, err)
	}
}

func TestHammer_ends_at_the_first_error(t *testing.T) {
	t.Parallel()
	broken := errors.New("broken")
	calls := 0
	_, err := runCalls(1, 100, func(_, n int) error {
		calls++
		if n == 3 {
			return broken
		}
		return nil
	})
	if !errors.Is(err, broken) || calls != 4 {
		t.Errorf("got %v after %d calls, want %v after 4", err, calls, broken)
	}
}

// TestCompare_undoes_what_it_does checks that a store does not grow while it is
// measured, and that names are unique within a round.
func TestCompare_undoes_what_it_does(t *testing.T) {
	t.Parallel()
	self := &child{name: "self", cmd: &exec.Cmd{Process: &os.Process{Pid: os.Getpid()}}}
	stored, most := map[int]bool{}, 0
	s := subject{server: self, callers: 1, calls: 5 * turns,
		do: func(_, n int) error {
			stored[n] = true
			most = max(most, n)
			return nil
		},
		undo: func(_, n int) error {
			if !stored[n] {
				t.Errorf("%d is taken back but was never there", n)
			}
			delete(stored, n)
			return nil
		}}
	got, err := compare(3, s)
	if err != nil || len(got) != 1 || len(got[0].cpu) != 3 {
		t.Fatalf("got %v and %v, want 3 rounds of one subject", got, err)
	}
	if len(stored) != 0 || most != 5*turns-1 {
		t.Errorf("got %d left over and the last call %d, want 0 and %d", len(stored), most, 5*turns-1)
	}
}

// TestCPU spins until the clock of the process has advanced.
func TestCPU(t *testing.T) {
	t.Parallel()
	self := &child{name: "self", cmd: &exec.Cmd{Process: &os.Process{Pid: os.Getpid()}}}
	before, err := self.cpu()
	if err != nil || before <= 0 {
		t.Fatalf("got %v and %v, want some processor time", before, err)
	}
	for now := before; now < before+20*time.Millisecond && t.Context().Err() == nil; {
		if now, err = self.cpu(); err != nil {
			t.Fatal(err)
		}
	}
	gone := &child{name: "gone", cmd: &exec.Cmd{Process: &os.Process{Pid: 1 << 22}}}
	if _, err := gone.cpu(); err == nil {
		t.Error("a process that does not exist has processor time")
	}
}

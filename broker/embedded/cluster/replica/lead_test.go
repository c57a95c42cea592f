package replica

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"testing/synctest"

	"signalbox/broker/embedded/engine"
)

// TestLead reports committed changes in the order of submission.
func TestLead(t *testing.T) {
	t.Parallel()
	s, l := open(t)
	lead(t, s, (&consensus{store: s}).Begin)
	j := newJournal()
	j.count(s, 1, 5000)
	settled, errs := j.wait(5000)
	must(t, errs...)
	submitted, applied := l.kept()
	if want := upTo(1, 5000); !slices.Equal(settled, want) || !slices.Equal(applied, want) || len(submitted) > 0 {
		t.Errorf("settled %d and applied %d changes, or not in order; the engine gave the store %d", len(settled), len(applied), len(submitted))
	}
	must(t, s.Err())
}

// TestLeadGathers proposes a single change at once, and gathers while four batches are in
// flight.
func TestLeadGathers(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s, _ := open(t)
		c := &consensus{store: s}
		release := c.hold()
		lead(t, s, c.Begin)
		j := newJournal()
		for n := range uint64(4) {
			j.count(s, n+1, n+1)
			synctest.Wait()
		}
		j.count(s, 5, 2000)
		synctest.Wait()
		if got := len(c.begun()); got != 4 {
			t.Errorf("%d commands are under way, want 4", got)
		}
		release()
		_, errs := j.wait(2000)
		must(t, errs...)
		var sizes []int
		for _, command := range c.begun() {
			sizes = append(sizes, len(numbers(t, command)))
		}
		if want := []int{1, 1, 1, 1, 1024, 972}; !slices.Equal(sizes, want) {
			t.Errorf("got batches of %v, want %v", sizes, want)
		}
	})
}

// TestLeadWeighs bounds a batch by its bytes. A change that exceeds the bound is a batch
// of its own, and one that is too large for any batch is refused.
func TestLeadWeighs(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s, _ := open(t)
		c := &consensus{store: s}
		release := c.hold()
		lead(t, s, c.Begin)
		j := newJournal()
		for n := range uint64(4) {
			j.count(s, n+1, n+1)
			synctest.Wait()
		}
		for i, size := range []int{100 << 10, 200 << 10, 100 << 10, 1 << 20, 1, MaxCommand + 1, 1} {
			big := sized(uint64(i)+5, size)
			big.Done, big.Owed = j, true
			s.Submit(big)
		}
		release()
		settled, errs := j.wait(11)
		if !slices.Equal(settled, upTo(1, 11)) {
			t.Errorf("settled %v", settled)
		}
		for i, err := range errs {
			if want := settled[i] == 10; want != errors.Is(err, errTooLarge) || !want && err != nil {
				t.Errorf("change %d is settled with %v", settled[i], err)
			}
		}
		var batches [][]uint64
		for _, command := range c.begun()[4:] {
			batches = append(batches, numbers(t, command))
		}
		if got, want := fmt.Sprint(batches), "[[5 6] [7] [8] [9] [11]]"; got != want {
			t.Errorf("got batches %s, want %s", got, want)
		}
		must(t, s.Err())
	})
}

// TestLeadLost loses the leadership at each of several commands.
func TestLeadLost(t *testing.T) {
	t.Parallel()
	for failAt := 1; failAt <= 8; failAt++ {
		t.Run(fmt.Sprint(failAt), func(t *testing.T) {
			t.Parallel()
			s, l := open(t)
			c := &consensus{store: s, failAt: failAt}
			release := c.hold()
			lost := lead(t, s, c.Begin)
			j := newJournal()
			for n := range uint64(40) { // two to a batch
				big := sized(n+1, 150<<10)
				big.Done = j
				s.Submit(big)
			}
			release()
			<-lost
			late := change(41)
			late.Done, late.Owed = j, true
			s.Submit(late)
			settled, errs := j.wait(41)
			if !slices.Equal(settled, upTo(1, 41)) {
				t.Error("what was pending is not settled in order")
			}
			_, applied := l.kept()
			for i, err := range errs {
				kept := i < len(applied)
				if kept && err != nil || !kept && (!errors.Is(err, errLost) || !errors.Is(err, engine.ErrUncertain)) {
					t.Fatalf("change %d of %d, of which %d are applied, is settled with %v", i+1, len(errs), len(applied), err)
				}
			}
			if err := s.Err(); !errors.Is(err, errLost) || !errors.Is(err, engine.ErrUncertain) {
				t.Errorf("got error %v", err)
			}
			if len(c.begun()) < failAt || len(c.begun()) > failAt+maxInFlight {
				t.Errorf("%d commands were begun; the leadership was lost at number %d", len(c.begun()), failAt)
			}
		})
	}
}

// TestLeadEnds makes pending changes fail when the owner ends the leadership, and stores
// nothing of them.
func TestLeadEnds(t *testing.T) {
	t.Parallel()
	s, l := open(t)
	c := &consensus{store: s}
	release := c.hold()
	defer release()
	lost := lead(t, s, c.Begin)
	j := newJournal()
	j.count(s, 1, 3000)
	must(t, s.Follow(t.Context()))
	<-lost
	settled, errs := j.wait(3000)
	for i, err := range errs {
		if !errors.Is(err, errLeadershipEnded) || !errors.Is(err, engine.ErrUncertain) {
			t.Fatalf("change %d is settled with %v", settled[i], err)
		}
	}
	if submitted, applied := l.kept(); len(submitted)+len(applied) > 0 {
		t.Errorf("the store was given %d and applied %d changes", len(submitted), len(applied))
	}
}

// TestLeadWaitsForCapacity makes callers wait while too many changes are pending.
func TestLeadWaitsForCapacity(t *testing.T) {
	t.Parallel()
	for _, what := range []struct {
		name      string
		n         uint64
		size      int
		whoFrees  func(release func(), s *Store)
		wantErrOf error
	}{
		{"changes agreed upon", maxPendingChanges + 1, 1, func(release func(), _ *Store) { release() }, nil},
		{"bytes agreed upon", 17, 4 << 20, func(release func(), _ *Store) { release() }, nil},
		{"another mode", maxPendingChanges + 1, 1, func(release func(), s *Store) { must(t, s.Follow(context.Background())); release() }, errLeadershipEnded},
	} {
		t.Run(what.name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				s, _ := open(t)
				c := &consensus{store: s}
				release := c.hold()
				lead(t, s, c.Begin)
				j := newJournal()
				s.WaitForCapacity()
				for n := range what.n {
					big := sized(n+1, what.size)
					big.Done = j
					s.Submit(big)
				}
				done := make(chan struct{})
				go func() { s.WaitForCapacity(); close(done) }()
				synctest.Wait()
				select {
				case <-done:
					t.Error("nobody waits, though too much is pending")
				default:
				}
				what.whoFrees(release, s)
				<-done
				_, errs := j.wait(int(what.n))
				for _, err := range errs {
					if !errors.Is(err, what.wantErrOf) {
						t.Fatalf("got error %v, want %v", err, what.wantErrOf)
					}
				}
			})
		})
	}
}

// TestSubmitWithinSettled lets a CommitNotifier submit, with a lock of its own that it
// holds when it submits.
func TestSubmitWithinSettled(t *testing.T) {
	t.Parallel()
	s, l := open(t)
	lead(t, s, (&consensus{store: s}).Begin)
	var mu sync.Mutex
	last := make(chan struct{})
	var again settlerFunc
	again = func(c *engine.Changes, err error) {
		mu.Lock()
		defer mu.Unlock()
		n := numberOf(c)
		if err != nil || n == 1000 {
			close(last)
			return
		}
		next := change(n + 1)
		next.Done = again
		s.Submit(next)
	}
	first := change(1)
	first.Done = again
	mu.Lock()
	s.Submit(first)
	mu.Unlock()
	<-last
	if _, applied := l.kept(); !slices.Equal(applied, upTo(1, 1000)) {
		t.Errorf("applied %d changes", len(applied))
	}
}

type settlerFunc func(*engine.Changes, error)

func (f settlerFunc) Committed(c *engine.Changes, err error) { f(c, err) }

// TestClose waits until what a leader has submitted is committed, as long as the context
// lasts.
func TestClose(t *testing.T) {
	t.Parallel()
	s, l := open(t)
	c := &consensus{store: s}
	release := c.hold()
	lead(t, s, c.Begin)
	j := newJournal()
	j.count(s, 1, 3000)
	release()
	must(t, s.Close(t.Context()))
	_, errs := j.wait(3000)
	must(t, errs...)
	if _, applied := l.kept(); !slices.Equal(applied, upTo(1, 3000)) {
		t.Errorf("applied %d changes", len(applied))
	}
	if err := <-submit(s, change(3001)); !errors.Is(err, errClosed) {
		t.Errorf("what comes after Close is settled with %v", err)
	}
	if err := s.Follow(t.Context()); !errors.Is(err, errClosed) {
		t.Errorf("a change of mode after Close gives %v", err)
	}
}

// TestCloseInTime does not wait longer than its context.
func TestCloseInTime(t *testing.T) {
	t.Parallel()
	s, l := open(t)
	c := &consensus{store: s}
	release := c.hold()
	defer release()
	lead(t, s, c.Begin)
	j := newJournal()
	j.count(s, 1, 3000)
	over, cancel := context.WithCancel(t.Context())
	cancel()
	must(t, s.Close(over))
	_, errs := j.wait(3000)
	for _, err := range errs {
		if !errors.Is(err, errLeadershipEnded) {
			t.Fatalf("got error %v", err)
		}
	}
	if submitted, _ := l.kept(); len(submitted) > 0 {
		t.Errorf("the node's own store was given %d changes", len(submitted))
	}
}

package main

import (
	"log/slog"
	"math"
	"os"
	"runtime/debug"
	"testing"

	"github.com/KimMachineGun/automemlimit/memlimit"
)

// TestMemoryLimit sets the soft limit from the control group, unless GOMEMLIMIT is set
// or there is no group.
func TestMemoryLimit(t *testing.T) {
	before := debug.SetMemoryLimit(math.MaxInt64)
	defer debug.SetMemoryLimit(before)
	log := slog.New(slog.DiscardHandler)

	t.Setenv("GOMEMLIMIT", "1GiB")
	limitMemory(memlimit.Limit(800<<20), log)
	if got := debug.SetMemoryLimit(-1); got != math.MaxInt64 {
		t.Errorf("beside GOMEMLIMIT, the limit was set to %d", got)
	}
	os.Unsetenv("GOMEMLIMIT") // t.Setenv restores it
	limitMemory(func() (uint64, error) { return 0, memlimit.ErrNoLimit }, log)
	if got := debug.SetMemoryLimit(-1); got != math.MaxInt64 {
		t.Errorf("without a control group's limit, the limit was set to %d", got)
	}
	limitMemory(memlimit.Limit(800<<20), log)
	if got := debug.SetMemoryLimit(-1); got != 680<<20 {
		t.Errorf("the limit is %d, want 85 %% of 800 MiB", got)
	}
}

// TestGrowHeap lets the heap of a start grow, unless GOGC is set.
func TestGrowHeap(t *testing.T) {
	before := debug.SetGCPercent(100)
	defer debug.SetGCPercent(before)
	for usual, want := range map[int]int{100: startGrowth, 50: 50, -1: -1} {
		debug.SetGCPercent(usual)
		undo := growHeap()
		if got := debug.SetGCPercent(want); got != want {
			t.Errorf("with %d, the heap grows by %d %%, want %d", usual, got, want)
		}
		undo()
		if got := debug.SetGCPercent(usual); got != usual {
			t.Errorf("afterwards the heap grows by %d %%, want %d", got, usual)
		}
	}
}

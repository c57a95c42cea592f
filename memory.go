package main

import (
	"log/slog"
	"math"
	"runtime/debug"

	"github.com/KimMachineGun/automemlimit/memlimit"
)

// memoryShare is the share of a control group's memory that the heap may take before it
// is collected eagerly. The rest is for memory outside of the heap.
const memoryShare = 0.85

// limitMemory sets the runtime's soft memory limit to a share of what the provider
// returns, unless GOMEMLIMIT is set, which the library checks. It returns a function
// that logs the limit: a refused start logs nothing else.
func limitMemory(provider memlimit.Provider, log *slog.Logger) (report func()) {
	limit, err := memlimit.Set(memlimit.WithProvider(provider), memlimit.WithRatio(memoryShare))
	if err != nil { // there is no control group, or none with a limit
		log.Debug("no memory limit of a control group is known", "error", err)
		return func() {}
	}
	return func() {
		if limit > 0 && limit < math.MaxInt64 { // a control group without a limit
			log.Info("memory limit set from the control group; GOMEMLIMIT overrides it", "bytes", limit)
		}
	}
}

// startGrowth is by how much the heap may grow during a start before it is collected, in percent: what a
// start allocates it mostly keeps.
const startGrowth = 200

// growHeap makes the garbage collector run less often, unless GOGC is set, and returns a function that undoes this after
// the start, and collects what that has left, which an idle service does not do.
func growHeap() (undo func()) {
	const usual = 100
	before := debug.SetGCPercent(startGrowth)
	if before != usual {
		debug.SetGCPercent(before)
	}
	return func() {
		debug.SetGCPercent(before)
		debug.FreeOSMemory()
	}
}

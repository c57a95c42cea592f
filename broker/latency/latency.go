// Package latency counts durations in histograms, for metrics.
//
// It must not import any other package of this module.
package latency

import (
	"sync/atomic"
	"time"
)

// Histogram counts durations. It is safe for concurrent use, and must not be copied.
type Histogram struct {
	bounds      []float64
	nanoseconds atomic.Int64
	in          []atomic.Uint64 // the last is for all that took longer
}

// New returns a histogram whose buckets have these upper bounds, ascending, in seconds.
func New(bounds ...float64) *Histogram {
	return &Histogram{bounds: bounds, in: make([]atomic.Uint64, len(bounds)+1)}
}

// Observe counts a duration.
func (h *Histogram) Observe(d time.Duration) {
	h.nanoseconds.Add(int64(d))
	i := 0
	for i < len(h.bounds) && d.Seconds() > h.bounds[i] {
		i++
	}
	h.in[i].Add(1)
}

// Snapshot is a histogram at one time, in seconds. A bucket counts all durations up to its
// bound.
type Snapshot struct {
	Count   uint64
	Sum     float64
	Buckets map[float64]uint64
}

// Snapshot returns what was counted so far.
func (h *Histogram) Snapshot() Snapshot {
	s := Snapshot{Sum: time.Duration(h.nanoseconds.Load()).Seconds(), Buckets: map[float64]uint64{}}
	for i := range h.in {
		s.Count += h.in[i].Load()
		if i < len(h.bounds) {
			s.Buckets[h.bounds[i]] = s.Count
		}
	}
	return s
}

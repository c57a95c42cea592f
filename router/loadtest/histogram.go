package loadtest

import (
	"math/bits"
	"time"
)

// perDoubling is the number of buckets between a duration and its double: a duration is known
// to within 1/perDoubling.
const perDoubling = 64

// Histogram counts durations, in nanoseconds, with a relative error below 2 %.
type Histogram struct {
	buckets [(64 - 6) * perDoubling]uint64
	count   uint64
	max     time.Duration
}

func (h *Histogram) observe(d time.Duration) {
	h.buckets[bucket(max(d, 0))]++
	h.count++
	h.max = max(h.max, d)
}

// bucket returns the number of the bucket of a duration: the position of its highest bit, and
// the six bits after it.
func bucket(d time.Duration) int {
	shift := max(bits.Len64(uint64(d))-7, 0)
	return shift*perDoubling + int(d>>shift)
}

// upper returns the longest duration of a bucket.
func upper(bucket int) time.Duration {
	shift := max(bucket/perDoubling-1, 0)
	return time.Duration(bucket-shift*perDoubling+1)<<shift - 1
}

func (h *Histogram) add(other *Histogram) {
	for i, n := range other.buckets {
		h.buckets[i] += n
	}
	h.count += other.count
	h.max = max(h.max, other.max)
}

// Count returns the number of durations.
func (h *Histogram) Count() uint64 { return h.count }

// Quantile returns the duration that a part of all durations, such as 0.99, do not exceed; 0
// without any.
func (h *Histogram) Quantile(part float64) time.Duration {
	wanted := uint64(part * float64(h.count))
	if float64(wanted) < part*float64(h.count) {
		wanted++
	}
	seen := uint64(0)
	for i, n := range h.buckets {
		if seen += n; n > 0 && seen >= wanted {
			return min(upper(i), h.max)
		}
	}
	return h.max
}

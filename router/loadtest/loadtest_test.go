package loadtest

import (
	"testing"
	"time"
)

// TestHistogram finds the quantiles of known durations to within two percent.
func TestHistogram(t *testing.T) {
	t.Parallel()
	var a, b Histogram
	for i := range 1000 {
		h := &a
		if i%2 == 0 {
			h = &b
		}
		h.observe(time.Duration(i+1) * time.Millisecond)
	}
	a.add(&b)
	for part, want := range map[float64]time.Duration{0.0005: time.Millisecond, 0.5: 500 * time.Millisecond, 0.99: 990 * time.Millisecond, 0.9999: time.Second, 1: time.Second} {
		if got := a.Quantile(part); got < want || got > want+want/50 {
			t.Errorf("%v: %v, want about %v", part, got, want)
		}
	}
	if a.Count() != 1000 || new(Histogram).Quantile(1) != 0 {
		t.Errorf("%d durations", a.Count())
	}
}

// TestBuckets are contiguous, from 0 to the longest duration.
func TestBuckets(t *testing.T) {
	t.Parallel()
	for i := range len(Histogram{}.buckets) - 1 {
		if bucket(upper(i)) != i || bucket(upper(i)+1) != i+1 {
			t.Fatalf("bucket %d ends at %d, which is in bucket %d, and the next in %d", i, upper(i), bucket(upper(i)), bucket(upper(i)+1))
		}
	}
	var h Histogram
	h.observe(1<<63 - 1)
	h.observe(-1)
	if h.Quantile(0.5) != 0 || h.Quantile(1) != 1<<63-1 {
		t.Errorf("%v to %v", h.Quantile(0.5), h.Quantile(1))
	}
}

// TestSeries separates messages that come again from those that come late.
func TestSeries(t *testing.T) {
	t.Parallel()
	var s series
	for _, c := range []struct {
		n           uint64
		first, late bool
	}{{0, true, false}, {0, false, false}, {3, true, false}, {1, true, true}, {1, false, false}, {2, true, true}, {3, false, false}, {maxMissing + 10, true, false}, {4, true, true}, {maxMissing + 9, false, false}} {
		if first, late := s.receive(c.n); first != c.first || late != c.late {
			t.Errorf("%d: first %v, late %v", c.n, first, late)
		}
	}
}

package monitor

import (
	"testing"
)

// TestInterval puts samples that are slightly early or late into consecutive intervals.
func TestInterval(t *testing.T) {
	t.Parallel()
	const start = 1_800_000_000_000
	for name, early := range map[string]int64{"at the centre": 5000, "near the start": 1, "near the end": 9999} {
		before := start + early
		last := interval(before, 0, 0)
		for i := range int64(1000) {
			jitter := []int64{-3, 2, 0, 3, -1}[i%5]
			date := start + early + (i+1)*10_000 + jitter
			got := interval(date, before, last)
			if got != last+10 {
				t.Fatalf("%s: sample %d is in the interval of %d, after that of %d", name, i, got, last)
			}
			before, last = date, got
		}
	}
	const before, last = start + 5000, start / 1000
	for name, c := range map[string]struct{ date, want int64 }{
		"a sample is missing":      {start + 25_000, last + 20},
		"many samples are missing": {start + 3_605_000, last + 3600},
		"the clock was set back":   {start - 3_595_000, last - 3600},
		"samples are too frequent": {start + 7_000, last},
	} {
		if got := interval(c.date, before, last); got != c.want {
			t.Errorf("%s: got %d, want %d", name, got, c.want)
		}
	}
}

// TestSteps checks that every step can be aggregated, and has a slot for each interval that
// is kept.
func TestSteps(t *testing.T) {
	t.Parallel()
	for _, s := range Steps() {
		if s.Length%finest.Length != 0 || s.Length > finest.Kept || s.Kept%s.Length != 0 {
			t.Errorf("step %v cannot be aggregated", s)
		}
		used := map[int64]bool{}
		for i := range s.slots() {
			used[s.slot(s.begin(1_800_000_000+i*s.seconds()))] = true
		}
		if int64(len(used)) != s.slots() {
			t.Errorf("step %v: %d of %d slots are used", s, len(used), s.slots())
		}
	}
}

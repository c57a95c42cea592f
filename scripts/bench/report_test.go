//go:build linux

package main

import (
	"strings"
	"testing"
)

func TestMedian(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		give samples
		want float64
	}{{samples{3}, 3}, {samples{3, 1, 2}, 2}, {samples{4, 1, 3, 2}, 2.5}} {
		if got := c.give.median(); got != c.want {
			t.Errorf("median of %v: got %v, want %v", c.give, got, c.want)
		}
	}
}

// TestRatios_are_taken_round_by_round checks that a slow round does not count if it
// affected both subjects.
func TestRatios_are_taken_round_by_round(t *testing.T) {
	t.Parallel()
	got := samples{2, 20, 3}.over(samples{1, 10, 2})
	if got.median() != 2 {
		t.Errorf("got %v, want the median 2", got)
	}
}

func TestReport(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		got    float64
		limit  limit
		bound  string
		missed bool
	}{
		"at most, equal":  {1.2, atMost(1.2), "≤ 1.20 ×", false},
		"at most, above":  {1.21, atMost(1.2), "≤ 1.20 ×", true},
		"at least, equal": {1.5, atLeast(1.5), "≥ 1.50 ×", false},
		"at least, below": {1.4, atLeast(1.5), "≥ 1.50 ×", true},
		"told":            {99, unbounded, "|  |  |", false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var out strings.Builder
			r := &report{out: &out}
			r.add("what", "figures", samples{c.got}, "%.2f ×", c.limit)
			if missed := r.missed > 0; missed != c.missed || strings.Contains(out.String(), "missed") != c.missed {
				t.Errorf("missed: got %v in %q, want %v", missed, out.String(), c.missed)
			}
			if !strings.Contains(out.String(), c.bound) {
				t.Errorf("got %q, want %q in it", out.String(), c.bound)
			}
		})
	}
}

func TestChoose(t *testing.T) {
	t.Parallel()
	if all, err := choose(""); err != nil || len(all) != len(measurements) {
		t.Errorf("nothing chosen: got %d and %v, want all", len(all), err)
	}
	two, err := choose("page,get")
	if err != nil || len(two) != 2 || two[0].name != "page" || two[1].name != "get" {
		t.Errorf("got %v and %v, want page and get", two, err)
	}
	if group, err := choose(management); err != nil || len(group) == 0 || len(group) >= len(measurements) || group[0].group != management {
		t.Errorf("a group: got %v and %v, want its measurements", group, err)
	}
	if _, err := choose("get,speed"); err == nil {
		t.Error("a measurement that is not there is chosen")
	}
}

//go:build linux

package main

import (
	"slices"
	"strings"
	"testing"
)

// TestCurve_slope checks the names of slopes, with figures that vary as measured ones do.
func TestCurve_slope(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		values samples
		want   string
	}{
		{samples{2.0, 2.3, 1.9, 2.2}, "flat"},
		{samples{64, 16, 11, 16}, "does not grow"},
		{samples{5, 6, 7, 9}, "log"},
		{samples{0.17, 0.19, 0.49, 4.7}, "linear"},
		{samples{1, 3, 10, 33}, "between log and linear"},
		{samples{1, 2, 20, 2000}, "more than linear"},
		{samples{3}, "one size only"},
	} {
		var got curves
		for i, v := range c.values {
			got.add("a figure", "%.0f", []int{1_000, 10_000, 100_000, 1_000_000}[i], v)
		}
		if s := got[0].slope(); len(got) != 1 || s != c.want {
			t.Errorf("%v: got %q, want %q", c.values, s, c.want)
		}
	}
}

func TestAddCurves(t *testing.T) {
	t.Parallel()
	var out strings.Builder
	var got curves
	got.add("start", "%.1f s", 500, 0.2)
	got.add("memory", "%.0f B", 500, 300)
	got.add("start", "%.1f s", 1_000, 0.4)
	got.add("start", "%.1f s", 2_000_000, 800)
	(&report{out: &out}).addCurves("things", got)
	want := "| things: start | 500: 0.2 s; 1k: 0.4 s; 2M: 800.0 s | linear (4000.00 ×) |  |  |\n" +
		"| things: memory | 500: 300 B | one size only (1.00 ×) |  |  |\n"
	if out.String() != want {
		t.Errorf("got %q, want %q", out.String(), want)
	}
}

// TestUpTo checks that a smoke run has smaller sizes, and that the largest one is always last.
func TestUpTo(t *testing.T) {
	t.Parallel()
	g := &growth{bench: &bench{scale: scale{share: 20}}}
	if got, want := g.upTo(18_000, 1_000, 4_000, 10_000, 100_000), []int{50, 200, 500, 900}; !slices.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
	g.share = 1
	if got, want := g.upTo(10_000, 1_000, 10_000), []int{1_000, 10_000}; !slices.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
}

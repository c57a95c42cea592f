//go:build linux

package main

import (
	"fmt"
	"io"
	"slices"
)

// samples are the values of one figure, one per round.
type samples []float64

func (s samples) median() float64 {
	sorted := slices.Sorted(slices.Values(s))
	middle := len(sorted) / 2
	if len(sorted)%2 == 0 {
		return (sorted[middle-1] + sorted[middle]) / 2
	}
	return sorted[middle]
}

// over divides round by round: a disturbance of a whole round cancels out.
func (s samples) over(base samples) samples {
	ratios := make(samples, len(s))
	for i := range s {
		ratios[i] = s[i] / base[i]
	}
	return ratios
}

func (s samples) minus(base samples) samples {
	differences := make(samples, len(s))
	for i := range s {
		differences[i] = s[i] - base[i]
	}
	return differences
}

// limit is the bound of a figure; the zero value is none.
type limit struct {
	bound float64
	least bool // a lower bound, not an upper one
}

func atMost(bound float64) limit  { return limit{bound: bound} }
func atLeast(bound float64) limit { return limit{bound: bound, least: true} }

// unbounded is the limit of a figure that is only for comparison.
var unbounded limit

func (l limit) holds(v float64) bool {
	return l == unbounded || l.least && v >= l.bound || !l.least && v <= l.bound
}

// report writes a Markdown table, each line as soon as it is known.
type report struct {
	out    io.Writer
	missed int // limits
}

func (r *report) head(environment string) {
	fmt.Fprintf(r.out, "%s\n\n| what | figures | got (of the rounds) | limit | |\n|---|---|---|---|---|\n", environment)
}

// add writes one line: the median of the samples and their range, in a format such as
// "%.2f ×", and whether the median is within the limit.
func (r *report) add(what, figures string, got samples, format string, l limit) {
	median := got.median()
	show := func(v float64) string { return fmt.Sprintf(format, v) }
	bound, verdict := "", ""
	if l != unbounded {
		bound, verdict = "≤ "+show(l.bound), "pass"
		if l.least {
			bound = "≥ " + show(l.bound)
		}
	}
	if !l.holds(median) {
		verdict = "**missed**"
		r.missed++
	}
	fmt.Fprintf(r.out, "| %s | %s | %s (%s – %s) | %s | %s |\n", what, figures,
		show(median), show(slices.Min(got)), show(slices.Max(got)), bound, verdict)
}

// fail writes a line for a measurement without a figure.
func (r *report) fail(what string, err error) {
	r.missed++
	fmt.Fprintf(r.out, "| %s | %v | | | **missed** |\n", what, err)
}

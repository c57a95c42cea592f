//go:build linux

package main

import (
	"fmt"
	"math"
	"slices"
	"strings"
)

// curve is a figure at growing sizes.
type curve struct {
	what, format string
	sizes        []int
	values       samples
}

// curves are the figures of a subject, in the order in which they were first added.
type curves []*curve

func (c *curves) add(what, format string, size int, value float64) {
	for _, known := range *c {
		if known.what == what {
			known.sizes, known.values = append(known.sizes, size), append(known.values, value)
			return
		}
	}
	*c = append(*c, &curve{what: what, format: format, sizes: []int{size}, values: samples{value}})
}

// A figure is flat if its largest value is at most this many times its smallest one. Otherwise the
// exponent of its growth from the last size but one to the last decides.
const (
	flatRatio       = 1.3
	logExponent     = 0.3
	linearExponent  = 0.6
	steeperExponent = 1.3
)

// slope names the growth of the figure with the size.
func (c *curve) slope() string {
	last := len(c.values) - 1
	if last < 1 {
		return "one size only"
	}
	if slices.Max(c.values) <= flatRatio*slices.Min(c.values) {
		return "flat"
	}
	exponent := math.Log(c.values[last]/c.values[last-1]) / math.Log(float64(c.sizes[last])/float64(c.sizes[last-1]))
	switch {
	case c.values[last] <= flatRatio*c.values[0]:
		return "does not grow"
	case exponent < logExponent:
		return "log"
	case exponent < linearExponent:
		return "between log and linear"
	case exponent < steeperExponent:
		return "linear"
	}
	return "more than linear"
}

// String returns the value at each size.
func (c *curve) String() string {
	var each []string
	for i, v := range c.values {
		each = append(each, fmt.Sprintf("%s: "+c.format, shortNumber(c.sizes[i]), v))
	}
	return strings.Join(each, "; ")
}

// shortNumber writes a number with k or M where that is exact.
func shortNumber(n int) string {
	const thousand, million = 1_000, 1_000_000
	switch {
	case n >= million && n%million == 0:
		return fmt.Sprintf("%dM", n/million)
	case n >= thousand && n%thousand == 0:
		return fmt.Sprintf("%dk", n/thousand)
	}
	return fmt.Sprint(n)
}

// addCurves writes a line for each figure: its values, and the slope with the ratio of its last
// value to its first one.
func (r *report) addCurves(of string, all curves) {
	for _, c := range all {
		ratio := c.values[len(c.values)-1] / c.values[0]
		fmt.Fprintf(r.out, "| %s: %s | %s | %s (%.2f ×) |  |  |\n", of, c.what, c, c.slope(), ratio)
	}
}

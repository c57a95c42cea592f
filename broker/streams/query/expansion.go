package query

import (
	"math"
	"slices"
)

// expansion is an exact sum of float64 values, as parts whose bits do not
// overlap, in increasing order of magnitude (Shewchuk, Adaptive Precision
// Floating-Point Arithmetic, 1997, section 2.3).
type expansion []float64

// maxParts bounds the parts. The bits of all finite numbers, 2,098, are at most
// 40 parts of 53 and a last one.
const maxParts = 64

// plus adds a value in place.
func (e expansion) plus(v float64) expansion {
	if len(e) == maxParts {
		e = e.compressed()
	}
	parts := e[:0]
	for _, part := range e {
		var lost float64
		if v, lost = twoSum(v, part); lost != 0 {
			parts = append(parts, lost)
		}
	}
	if v != 0 || len(parts) == 0 {
		parts = append(parts, v)
	}
	return parts
}

// compressed returns the fewest parts of the same sum, in place (Shewchuk,
// section 2.8): of two neighbours, the lesser is at most half of the greater
// one's last bit.
func (e expansion) compressed() expansion {
	last := len(e) - 1
	sum, at := e[last], last
	for i := last - 1; i >= 0; i-- {
		great, lost := twoSum(sum, e[i])
		if lost != 0 {
			e[at], great = great, lost
			at--
		}
		sum = great
	}
	parts := e[:0]
	for _, part := range e[at+1:] {
		great, lost := twoSum(part, sum)
		if lost != 0 {
			parts = append(parts, lost)
		}
		sum = great
	}
	return append(parts, sum)
}

// plusInt adds an integer in place, as two values that a float64 holds exactly.
func (e expansion) plusInt(v int64) expansion {
	const low = 1<<11 - 1
	return e.plus(float64(v &^ low)).plus(float64(v & low))
}

// rounded returns the nearest float64, the even one of two.
func (e expansion) rounded() float64 {
	i := len(e) - 1
	if i < 0 {
		return 0
	}
	value, lost := e[i], 0.0
	for i--; i >= 0 && lost == 0; i-- {
		value, lost = twoSum(value, e[i])
	}
	// lost may be exactly half of the last bit. Then a smaller part decides.
	if i >= 0 && (lost < 0) == (e[i] < 0) {
		if up := value + 2*lost; up-value == 2*lost {
			value = up
		}
	}
	return value
}

// finite reports whether the sum is a number that can be added to.
func (e expansion) finite() bool {
	return !slices.ContainsFunc(e, func(v float64) bool { return !isFinite(v) }) && isFinite(e.rounded())
}

func isFinite(v float64) bool { return !math.IsInf(v, 0) && !math.IsNaN(v) }

// twoSum adds, and returns the exact rounding error as well (Knuth's TwoSum).
func twoSum(a, b float64) (sum, lost float64) {
	sum = a + b
	part := sum - a
	return sum, a - (sum - part) + (b - part)
}

package query

import (
	"math"
	"strconv"
)

// aggregate is a function over the messages of a bucket, but for count, which
// every state keeps.
type aggregate struct {
	function function
	slot     int // of its value
}

// function is what an aggregate computes.
type function byte

const (
	counting function = iota // takes no value
	lowest
	highest
	adding
)

// longest is how many bytes a number may have that is to be aggregated; it
// bounds what a state keeps.
const longest = 1024

// sum is a running sum. It is exact for integers while they fit, then a float64,
// with what that rounds off beside it so that small parts add up.
type sum struct {
	whole       int64
	float       bool
	value, rest float64
}

// aggregate takes the message into the state. It tells whether it could: if not,
// nothing has changed.
func (q *Query) aggregate(payload []byte, bucket int64, s *State) bool {
	if !q.Stateful() {
		s.bucket = bucket
		return true
	}
	fresh := s.count == 0 || bucket > s.bucket
	for i, a := range q.aggregates {
		if a.function != counting && !s.prepare(i, a, fresh, payload) {
			return false
		}
	}
	if fresh {
		s.bucket, s.count = bucket, 0
	}
	s.count++
	for i, a := range q.aggregates {
		s.running[i].take(a, s.scanner.spans, payload)
	}
	return true
}

// prepare works out what the message does to an aggregate.
func (s *State) prepare(i int, a aggregate, fresh bool, payload []byte) bool {
	text := s.scanner.spans[a.slot].of(payload)
	n, ok := parseNumber(text)
	if !ok || len(text) > longest {
		return false
	}
	r := &s.running[i]
	if a.function == adding {
		before := r.sum
		if fresh {
			before = sum{}
		}
		r.nextSum, ok = before.plus(n, text)
		return ok
	}
	r.better = fresh || r.outdone(n, a.function)
	return true
}

// running is an aggregate's value, and what the message at hand makes of it.
type running struct {
	extreme []byte // as it was written
	sum     sum

	better  bool
	nextSum sum
}

// outdone tells whether a number goes beyond the extreme.
func (r *running) outdone(n number, f function) bool {
	before, _ := parseNumber(r.extreme)
	if f == lowest {
		return n.compare(before) < 0
	}
	return n.compare(before) > 0
}

// take takes over what was prepared.
func (r *running) take(a aggregate, spans []span, payload []byte) {
	switch {
	case a.function == adding:
		r.sum = r.nextSum
	case a.function != counting && r.better:
		r.extreme = append(r.extreme[:0], spans[a.slot].of(payload)...)
	}
}

// plus adds a number, and tells whether the result is finite.
func (s sum) plus(n number, text []byte) (sum, bool) {
	whole, isWhole := n.integer()
	if isWhole && !s.float {
		if v, fits := addInts(s.whole, whole); fits {
			return sum{whole: v}, true
		}
	}
	s = s.floating()
	if isWhole {
		high, low := halves(whole)
		s = s.plusFloat(high).plusFloat(low)
		return s, s.finite()
	}
	v, _ := strconv.ParseFloat(string(text), 64) // infinite if it is too large
	s = s.plusFloat(v)
	return s, s.finite()
}

// floating turns an exact sum into one of floats, still exact.
func (s sum) floating() sum {
	if s.float {
		return s
	}
	high, low := halves(s.whole)
	return sum{}.plusFloat(high).plusFloat(low)
}

// halves splits an integer in two that a float64 holds exactly each.
func halves(v int64) (high, low float64) {
	const bits = 1<<11 - 1
	return float64(v &^ bits), float64(v & bits)
}

func (s sum) plusFloat(v float64) sum {
	value, lost := twoSum(s.value, v)
	value, rest := twoSum(value, s.rest+lost)
	return sum{float: true, value: value, rest: rest}
}

// twoSum adds, and tells exactly what the rounding took off.
func twoSum(a, b float64) (sum, lost float64) {
	sum = a + b
	part := sum - a
	return sum, a - (sum - part) + (b - part)
}

// finite tells whether the sum is a number, and can be added to.
func (s sum) finite() bool { return isFinite(s.value) && isFinite(s.rest) }

func isFinite(v float64) bool { return !math.IsInf(v, 0) && !math.IsNaN(v) }

func (s sum) append(dst []byte) []byte {
	if !s.float {
		return appendInt(dst, s.whole)
	}
	return appendFloat(dst, s.value)
}

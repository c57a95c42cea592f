package query

import (
	"math"
	"strconv"
)

// aggregate is a function over the messages of a bucket. The count has no
// running value here, as every state counts its messages.
type aggregate struct {
	function function
	slot     int // of its value
}

// function is what an aggregate computes.
type function byte

const (
	functionCount function = iota // takes no value
	functionMin
	functionMax
	functionSum
)

// maxNumber is the size in bytes up to which a number is aggregated. It bounds
// the stored form of a state.
const maxNumber = 1024

// sum is a running sum. It is exact for integers while they fit an int64. After
// that it is a float64 with a compensation term for what rounding loses, so
// that many small summands still add up.
type sum struct {
	whole               int64
	float               bool
	value, compensation float64
}

// aggregate adds the message to the state and reports whether it could. If not,
// the state is unchanged.
func (q *Query) aggregate(payload []byte, bucket int64, s *State) bool {
	if !q.Stateful() {
		s.bucket = bucket
		return true
	}
	fresh := s.count == 0 || bucket > s.bucket
	for i, a := range q.aggregates {
		if a.function != functionCount && !s.prepare(i, a, fresh, payload) {
			return false
		}
	}
	if fresh {
		s.bucket, s.count = bucket, 0
	}
	s.count++
	for i, a := range q.aggregates {
		s.running[i].commit(a, s.scanner.spans, payload)
	}
	return true
}

// prepare computes the effect of the message on an aggregate without changing
// its value, and reports whether the message has a number for it.
func (s *State) prepare(i int, a aggregate, fresh bool, payload []byte) bool {
	text := s.scanner.spans[a.slot].of(payload)
	n, ok := parseNumber(text)
	if !ok || len(text) > maxNumber {
		return false
	}
	r := &s.running[i]
	if a.function == functionSum {
		before := r.sum
		if fresh {
			before = sum{}
		}
		r.nextSum, ok = before.plus(n, text)
		return ok
	}
	r.newExtreme = fresh || r.replacedBy(n, a.function)
	return true
}

// running is the value of an aggregate, and the change that the current message
// prepares.
type running struct {
	extreme []byte // as written in the payload
	sum     sum

	newExtreme bool
	nextSum    sum
}

// replacedBy reports whether n is a new extreme.
func (r *running) replacedBy(n number, f function) bool {
	before, _ := parseNumber(r.extreme)
	if f == functionMin {
		return n.compare(before) < 0
	}
	return n.compare(before) > 0
}

// commit applies what was prepared.
func (r *running) commit(a aggregate, spans []span, payload []byte) {
	switch {
	case a.function == functionSum:
		r.sum = r.nextSum
	case a.function != functionCount && r.newExtreme:
		r.extreme = append(r.extreme[:0], spans[a.slot].of(payload)...)
	}
}

// plus returns the sum with n added, and reports whether it is finite.
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

// floating returns the sum as floats, without loss.
func (s sum) floating() sum {
	if s.float {
		return s
	}
	high, low := halves(s.whole)
	return sum{}.plusFloat(high).plusFloat(low)
}

// halves splits an integer into two parts that a float64 holds exactly.
func halves(v int64) (high, low float64) {
	const bits = 1<<11 - 1
	return float64(v &^ bits), float64(v & bits)
}

func (s sum) plusFloat(v float64) sum {
	value, lost := twoSum(s.value, v)
	value, rest := twoSum(value, s.compensation+lost)
	return sum{float: true, value: value, compensation: rest}
}

// twoSum adds, and returns the exact rounding error as well (Knuth's TwoSum).
func twoSum(a, b float64) (sum, lost float64) {
	sum = a + b
	part := sum - a
	return sum, a - (sum - part) + (b - part)
}

// finite reports whether the sum is a number that can be added to.
func (s sum) finite() bool { return isFinite(s.value) && isFinite(s.compensation) }

func isFinite(v float64) bool { return !math.IsInf(v, 0) && !math.IsNaN(v) }

func (s sum) append(dst []byte) []byte {
	if !s.float {
		return appendInt(dst, s.whole)
	}
	return appendFloat(dst, s.value)
}

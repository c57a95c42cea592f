package query

import "strconv"

// aggregate is a function over the messages of a bucket. The count has no
// running value here, as every state counts its messages.
type aggregate struct {
	function function
	slot     int    // of its value
	at       string // place of its source in the query object
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

// sum is a running sum: of integers while it fits an int64, after that of
// float64 values. Both are exact, and rounded only when they are output.
type sum struct {
	whole  int64
	float  bool
	floats expansion
}

// aggregate adds the message to the state, or returns why it could not. Then the
// state is unchanged.
func (q *Query) aggregate(payload []byte, bucket int64, s *State) Cause {
	if !q.Stateful() {
		s.bucket = bucket
		return Cause{}
	}
	fresh := s.count == 0 || bucket > s.bucket
	for i := range q.aggregates {
		a := &q.aggregates[i]
		if a.function == functionCount {
			continue
		}
		if reason := s.prepare(i, a, fresh, payload); reason != "" {
			return Cause{Path: a.at, Reason: reason}
		}
	}
	if fresh {
		s.bucket, s.count = bucket, 0
	}
	s.count++
	for i, a := range q.aggregates {
		s.running[i].commit(a, s.scanner.spans, payload)
	}
	return Cause{}
}

// prepare computes the effect of the message on an aggregate without changing
// its value, and returns why the message has no number for it, "" if it has.
func (s *State) prepare(i int, a *aggregate, fresh bool, payload []byte) Reason {
	text := s.scanner.spans[a.slot].of(payload)
	if len(text) == 0 {
		return Missing
	}
	n, ok := parseNumber(text)
	if !ok || len(text) > maxNumber {
		return NotNumber
	}
	r := &s.running[i]
	if a.function == functionSum {
		before := r.sum
		if fresh {
			before = sum{}
		}
		if r.nextSum, ok = before.plus(n, text, r.nextSum.floats[:0]); !ok {
			return Overflow
		}
		return ""
	}
	r.newExtreme = fresh || r.replacedBy(n, a.function)
	return ""
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
		r.sum, r.nextSum = r.nextSum, r.sum
	case a.function != functionCount && r.newExtreme:
		r.extreme = append(r.extreme[:0], spans[a.slot].of(payload)...)
	}
}

// plus returns the sum with n added, and reports whether it is finite. It uses
// the memory of free.
func (s sum) plus(n number, text []byte, free expansion) (sum, bool) {
	whole, isWhole := n.integer()
	if isWhole && !s.float {
		if v, fits := addInts(s.whole, whole); fits {
			return sum{whole: v, floats: free}, true
		}
	}
	floats := append(free, s.floats...)
	if !s.float {
		floats = floats.plusInt(s.whole)
	}
	if isWhole {
		floats = floats.plusInt(whole)
	} else {
		v, _ := strconv.ParseFloat(string(text), 64) // infinite if it is too large
		floats = floats.plus(v)
	}
	return sum{float: true, floats: floats}, floats.finite()
}

func (s sum) append(dst []byte) []byte {
	if !s.float {
		return appendInt(dst, s.whole)
	}
	return appendFloat(dst, s.floats.rounded())
}

// Package query compiles the queries of streams and runs them on JSON payloads:
// it selects members into a new object, keeps running aggregates, and filters.
// DESIGN.md tells what a query means where its documentation leaves that open.
//
// It is pure: it reads no clock, starts no goroutine, and imports nothing but
// the standard library, in particular no package of ours.
package query

import "sync"

// Query is a compiled query. It does not change and may be used by any number
// of goroutines, each with a State of its own.
type Query struct {
	selects     bool  // something, be it for its alias only
	sources     *node // where the wanted values are in a payload
	slots       int   // how many they are
	required    []int // the slots that a message must fill
	aggregates  []aggregate
	bucket      bucket
	where       *condition
	output      program
	fingerprint uint64
	idle        sync.Pool // of *State, for messages that come without one
}

// Verdict is what a query says of a message.
type Verdict int

// The verdicts.
const (
	Invalid  Verdict = iota // no JSON, or it lacks what the query asks for; nothing was counted
	Filtered                // the condition does not hold
	Match                   // there is an output
)

// Empty tells whether the query neither selects nor asks anything, so that all
// payloads pass as they are, JSON or not.
func (q *Query) Empty() bool { return !q.selects && q.where == nil }

// Stateful tells whether the query has aggregates, so that its output depends
// on the messages before.
func (q *Query) Stateful() bool { return len(q.aggregates) > 0 }

// Run runs the query on the payload of a message that came at the given time,
// in epoch milliseconds, and appends its output to dst where the verdict is
// Match; otherwise dst comes back as it was. The state must be one of this
// query; nil is a state without any message, as does for a query that is not
// stateful. Nothing of payload or dst is kept.
//
// Run allocates for dst alone, but for a new extreme that is longer than those
// before, and for a number of more than 32 bytes in a sum.
func (q *Query) Run(dst, payload []byte, at int64, s *State) (out []byte, v Verdict) {
	if q.Empty() {
		return append(dst, payload...), Match
	}
	if s == nil {
		s = q.borrow()
		defer q.idle.Put(s)
	}
	if v := q.judge(payload, at, s); v != Match {
		return dst, v
	}
	if !q.output.builds() {
		return append(dst, payload...), Match
	}
	return q.output.run(dst, q, payload, s), Match
}

// borrow gives a state without any message.
func (q *Query) borrow() *State {
	s, ok := q.idle.Get().(*State)
	if !ok {
		return q.NewState()
	}
	s.count = 0
	return s
}

// judge gives the verdict, and takes a message into the aggregates that is not
// invalid and not kept out by a condition on the message itself.
func (q *Query) judge(payload []byte, at int64, s *State) Verdict {
	if !s.scanner.scan(payload, q.sources) {
		return Invalid
	}
	if q.where.onMessage() && !q.where.holds(q, payload, s) {
		return Filtered
	}
	if !q.complete(s) || !q.aggregate(payload, q.bucket.of(at), s) {
		return Invalid
	}
	if q.where.onResult() && !q.where.holds(q, payload, s) {
		return Filtered
	}
	return Match
}

// complete tells whether the message has all members that are selected as they
// are.
func (q *Query) complete(s *State) bool {
	for _, slot := range q.required {
		if !s.scanner.spans[slot].found() {
			return false
		}
	}
	return true
}

// operand is something that a query can put out or compare.
type operand struct {
	kind  kind
	index int // of a slot, or of an aggregate
}

// kind says where an operand comes from.
type kind int

const (
	member   kind = iota // a value of the message
	extreme              // min or max
	total                // sum
	messages             // count
	start                // of the bucket
)

// append appends the JSON text of an operand that is there.
func (q *Query) append(dst, payload []byte, s *State, o operand) []byte {
	switch o.kind {
	case extreme:
		return append(dst, s.running[o.index].extreme...)
	case total:
		return s.running[o.index].sum.append(dst)
	case messages:
		return appendInt(dst, s.count)
	case start:
		return appendSeconds(dst, s.bucket)
	default:
		return append(dst, s.scanner.spans[o.index].of(payload)...)
	}
}

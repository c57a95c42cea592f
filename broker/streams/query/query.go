// Package query compiles the queries of streams and runs them on JSON payloads:
// it selects members into a new object, computes running aggregates, and
// filters. DESIGN.md defines the meaning of a query where the documentation of
// streams leaves it open.
//
// It reads no clock, starts no goroutine, and imports broker/records and the
// standard library only.
package query

import "sync"

// Query is a compiled query. It is immutable and may be used by any number of
// goroutines, each with its own State.
type Query struct {
	selects     bool  // at least one select, even if only with an alias
	sources     *node // the wanted values in a payload
	slots       int   // number of wanted values
	required    []requirement
	aggregates  []aggregate
	bucket      bucket
	where       *condition
	output      program
	fingerprint uint64
	states      sync.Pool // *State, for Run without one
}

// Verdict is the result of a query for a message.
type Verdict int

// The verdicts.
const (
	Invalid  Verdict = iota // not JSON, or without a required member; not counted
	Filtered                // the condition does not hold
	Match                   // there is an output
)

// requirement is a slot that every message must fill.
type requirement struct {
	slot int
	at   string // place of its select in the query object
}

// Empty reports whether the query has neither a select nor a condition, so that
// all payloads pass unchanged, JSON or not.
func (q *Query) Empty() bool { return !q.selects && q.where == nil }

// Stateful reports whether the query has aggregates, so that its output depends
// on earlier messages.
func (q *Query) Stateful() bool { return len(q.aggregates) > 0 }

// Run runs the query on the payload of a message that arrived at the given
// time, in epoch milliseconds. It appends the output to dst if the verdict is
// Match; otherwise it returns dst unchanged, and why. The state must belong to this
// query. A nil state stands for a new one, which is all that a query without
// aggregates needs. Run does not retain payload or dst.
//
// Run allocates only to grow dst, to store an extreme that is longer than any
// before, and to add a number of more than 32 bytes to a sum.
func (q *Query) Run(dst, payload []byte, at int64, s *State) (out []byte, v Verdict, why Cause) {
	if q.Empty() {
		return append(dst, payload...), Match, Cause{}
	}
	if s == nil {
		s = q.borrow()
		defer q.states.Put(s)
	}
	if v, why := q.evaluate(payload, at, s); v != Match {
		return dst, v, why
	}
	if !q.output.hasOutput() {
		return append(dst, payload...), Match, Cause{}
	}
	return q.output.run(dst, q, payload, s), Match, Cause{}
}

// borrow returns a pooled state without messages.
func (q *Query) borrow() *State {
	s, ok := q.states.Get().(*State)
	if !ok {
		return q.NewState()
	}
	s.count = 0
	return s
}

// evaluate returns the verdict, and its cause unless it is Match. It adds a message
// to the aggregates unless it is invalid or filtered by a condition on the message
// itself.
func (q *Query) evaluate(payload []byte, at int64, s *State) (Verdict, Cause) {
	if !s.scanner.scan(payload, q.sources) {
		return Invalid, Cause{Reason: NotJSON}
	}
	if q.where.onMessage() && !q.where.holds(q, payload, s) {
		return Filtered, Cause{Path: wherePath, Reason: ConditionFalse}
	}
	if why := q.missing(s); why.Reason != "" {
		return Invalid, why
	}
	if why := q.aggregate(payload, q.bucket.of(at), s); why.Reason != "" {
		return Invalid, why
	}
	if q.where.onResult() && !q.where.holds(q, payload, s) {
		return Filtered, Cause{Path: wherePath, Reason: ConditionFalse}
	}
	return Match, Cause{}
}

// missing returns the first plain select whose member the message lacks.
func (q *Query) missing(s *State) Cause {
	for _, r := range q.required {
		if !s.scanner.spans[r.slot].found() {
			return Cause{Path: r.at, Reason: Missing}
		}
	}
	return Cause{}
}

// operand is a value that a query can output or compare.
type operand struct {
	kind  kind
	index int // of a slot or an aggregate
}

// kind is the origin of an operand.
type kind int

const (
	member   kind = iota // a value of the message
	extreme              // min or max
	total                // sum
	messages             // count
	start                // of the bucket
)

// append appends the JSON text of an operand. It must have a value.
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

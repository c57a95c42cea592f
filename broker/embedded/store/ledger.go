package store

import (
	"cmp"
	"slices"

	"signalbox/broker/embedded/engine"
)

// ledger is what the committer knows by heart of what is stored: who refers to
// which message. It changes only after a commit, so it never has to be undone.
type ledger struct {
	refs     map[uint64]int    // queue rows and retained topics, by message; absent where not stored
	retained map[string]uint64 // message by topic
	lines    map[uint64]*line  // what waits, by session
}

func newLedger() *ledger {
	return &ledger{refs: map[uint64]int{}, retained: map[string]uint64{}, lines: map[uint64]*line{}}
}

// find gives the message that a session has under a sequence number, or 0.
func (l *ledger) find(session, seq uint64) (message uint64) {
	if q := l.lines[session]; q != nil {
		if i, ok := q.search(seq); ok {
			return q.waiting[i].message
		}
	}
	return 0
}

// enqueue notes a queue row that was stored. References are counted apart.
func (l *ledger) enqueue(session, seq, message uint64) {
	q := l.lines[session]
	if q == nil {
		q = &line{}
		l.lines[session] = q
	}
	q.push(waiter{seq, message})
}

// dequeue notes that a queue row was deleted.
func (l *ledger) dequeue(session, seq uint64) {
	q := l.lines[session]
	if q == nil {
		return
	}
	if q.remove(seq); len(q.waiting) == 0 {
		delete(l.lines, session)
	}
}

// note takes over what a committed plan has changed.
func (l *ledger) note(p *plan) {
	for _, u := range p.uses {
		if after := l.refs[u.id] + u.delta; after > 0 {
			l.refs[u.id] = after
		} else {
			delete(l.refs, u.id)
		}
	}
	for _, r := range p.leave {
		l.dequeue(r.session, r.seq)
	}
	for _, r := range p.join {
		if r.Message != nil {
			l.enqueue(r.SessionID, r.Seq, r.Message.ID)
		}
	}
	for topic, m := range p.retained {
		l.retain(topic, m)
	}
}

func (l *ledger) retain(topic string, m *engine.Message) {
	if m == nil {
		delete(l.retained, topic)
		return
	}
	l.retained[topic] = m.ID
}

// line is what waits for one session, in order of sequence numbers. What left
// out of turn stays with message 0 until all before it have left too.
type line struct{ waiting []waiter }

type waiter struct{ seq, message uint64 }

func (q *line) search(seq uint64) (int, bool) {
	return slices.BinarySearchFunc(q.waiting, seq, func(w waiter, seq uint64) int { return cmp.Compare(w.seq, seq) })
}

func (q *line) push(w waiter) {
	if n := len(q.waiting); n == 0 || q.waiting[n-1].seq < w.seq {
		q.waiting = append(q.waiting, w)
		return
	}
	i, there := q.search(w.seq)
	if there {
		q.waiting[i] = w
		return
	}
	q.waiting = slices.Insert(q.waiting, i, w)
}

func (q *line) remove(seq uint64) {
	i, ok := q.search(seq)
	if !ok {
		return
	}
	q.waiting[i].message = 0
	for len(q.waiting) > 0 && q.waiting[0].message == 0 {
		q.waiting = q.waiting[1:]
	}
}

package store

import (
	"cmp"
	"slices"

	"signalbox/broker/embedded/engine"
)

// refCounts is what the committer knows of the file without reading it: which queue
// rows and retained topics refer to which message. It changes only after a commit, so
// that a failed transaction leaves nothing to undo. It takes 16 bytes for a queue row
// and about 50 for a message or a retained topic.
type refCounts struct {
	refs     map[uint64]int           // queue rows and retained topics, by message; absent where not stored
	retained map[string]uint64        // message by topic
	queues   map[uint64]*sessionQueue // queue rows, by session
}

func newRefCounts() *refCounts {
	return &refCounts{refs: map[uint64]int{}, retained: map[string]uint64{}, queues: map[uint64]*sessionQueue{}}
}

// reserve makes space for messages and retained topics that are about to be read: maps that grow to a
// million entries step by step take a third of the time of a start.
func (l *refCounts) reserve(messages, retained int) {
	l.refs, l.retained = make(map[uint64]int, messages), make(map[string]uint64, retained)
}

// find returns the message that a session has queued under a sequence number, or 0.
func (l *refCounts) find(session, seq uint64) (message uint64) {
	if q := l.queues[session]; q != nil {
		if i, ok := q.search(seq); ok {
			return q.waiting[i].message
		}
	}
	return 0
}

// enqueue adds a stored queue row. It does not count the reference.
func (l *refCounts) enqueue(session, seq, message uint64) {
	q := l.queues[session]
	if q == nil {
		q = &sessionQueue{}
		l.queues[session] = q
	}
	q.push(queuedRef{seq, message})
}

// dequeue removes a deleted queue row.
func (l *refCounts) dequeue(session, seq uint64) {
	q := l.queues[session]
	if q == nil {
		return
	}
	if q.remove(seq); len(q.waiting) == 0 {
		delete(l.queues, session)
	}
}

// apply makes the changes of a committed plan.
func (l *refCounts) apply(p *plan) {
	for _, u := range p.changes {
		if after := l.refs[u.id] + u.delta; after > 0 {
			l.refs[u.id] = after
		} else {
			delete(l.refs, u.id)
		}
	}
	for _, r := range p.dequeued {
		l.dequeue(r.session, r.seq)
	}
	for _, r := range p.enqueued {
		if r.Message != nil {
			l.enqueue(r.SessionID, r.Seq, r.Message.ID)
		}
	}
	for topic, m := range p.retained {
		l.retain(topic, m)
	}
}

func (l *refCounts) retain(topic string, m *engine.Message) {
	if m == nil {
		delete(l.retained, topic)
		return
	}
	l.retained[topic] = m.ID
}

// sessionQueue is the queue of one session, in order of sequence numbers. A row that is
// deleted out of order keeps its place, with message 0, until all rows before it are
// deleted.
type sessionQueue struct{ waiting []queuedRef }

type queuedRef struct{ seq, message uint64 }

func (q *sessionQueue) search(seq uint64) (int, bool) {
	return slices.BinarySearchFunc(q.waiting, seq, func(w queuedRef, seq uint64) int { return cmp.Compare(w.seq, seq) })
}

func (q *sessionQueue) push(w queuedRef) {
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

func (q *sessionQueue) remove(seq uint64) {
	i, ok := q.search(seq)
	if !ok {
		return
	}
	q.waiting[i].message = 0
	for len(q.waiting) > 0 && q.waiting[0].message == 0 {
		q.waiting = q.waiting[1:]
	}
}

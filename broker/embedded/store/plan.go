package store

import (
	"cmp"
	"slices"

	"signalbox/broker/embedded/engine"
)

// plan is the net effect of a group of changes on the tables that refer to each other.
// A row that is put and deleted within the group is not written at all. A message is
// put with its first reference and deleted with its last.
type plan struct {
	counts *refCounts

	ended    map[uint64]struct{}        // sessions
	enqueued []engine.QueueRecord       // rows to be put; those with a nil Message were dequeued again
	dequeued []queueRow                 // stored rows to be deleted
	released []queueRow                 // stored rows of which PUBREC came
	retained map[string]*engine.Message // by topic; nil clears
	changes  []refChange                // of each message concerned
	rowOf    map[queueKey]int           // index in enqueued, or deletedRow
	changeOf map[uint64]int             // index in changes, by message
}

// queueKey identifies a queue row as the engine does.
type queueKey struct{ session, seq uint64 }

// queueRow identifies a queue row as the table does.
type queueRow struct {
	queueKey
	message uint64
}

// deletedRow marks a row that was stored and is deleted by the plan.
const deletedRow = -1

// refChange is the change in the number of references to a message.
type refChange struct {
	id       uint64
	message  *engine.Message // nil if references are only removed
	delta    int
	retained int // 1 if a topic begins to retain it, -1 if one ceases to
}

func newPlan(counts *refCounts) *plan {
	return &plan{
		counts: counts,
		ended:  map[uint64]struct{}{}, retained: map[string]*engine.Message{}, rowOf: map[queueKey]int{}, changeOf: map[uint64]int{},
	}
}

// reset empties the plan and keeps its memory for the next one.
func (p *plan) reset() {
	clear(p.enqueued)
	clear(p.changes)
	p.enqueued, p.dequeued, p.released, p.changes = p.enqueued[:0], p.dequeued[:0], p.released[:0], p.changes[:0]
	p.ended, p.retained = emptied(p.ended), emptied(p.retained)
	p.rowOf, p.changeOf = emptied(p.rowOf), emptied(p.changeOf)
}

// emptied returns an empty map: the same one, unless it is so large that clearing it
// each time would cost more than growing a new one.
func emptied[K comparable, V any](m map[K]V) map[K]V {
	if len(m) > 8*groupChanges {
		return map[K]V{}
	}
	clear(m)
	return m
}

// build fills the plan from a group. Nothing of a session that ends in the group is
// put, whatever the order: its ID is never used again.
func (p *plan) build(group []*engine.Changes) {
	for _, c := range group {
		for _, session := range c.EndedSessions {
			p.ended[session] = struct{}{}
		}
	}
	for _, c := range group {
		p.add(c)
	}
	for session := range p.ended {
		p.deleteQueue(session)
	}
	p.countRetained()
}

func (p *plan) add(c *engine.Changes) {
	for i := range c.Enqueued {
		p.enqueue(&c.Enqueued[i])
	}
	for i := range c.Released {
		p.release(queueKey{c.Released[i].SessionID, c.Released[i].Seq})
	}
	for _, r := range c.Retained {
		p.retained[r.Topic] = r.Message
	}
	for i := range c.Dequeued {
		p.dequeue(queueKey{c.Dequeued[i].SessionID, c.Dequeued[i].Seq})
	}
}

func (p *plan) enqueue(r *engine.QueueRecord) {
	if p.hasEnded(r.SessionID) {
		return
	}
	p.rowOf[queueKey{r.SessionID, r.Seq}] = len(p.enqueued)
	p.enqueued = append(p.enqueued, *r)
	p.addRefs(r.Message, 1)
}

func (p *plan) release(s queueKey) {
	i, known := p.rowOf[s]
	if known && i != deletedRow {
		p.enqueued[i].Released = true
		return
	}
	if message := p.counts.find(s.session, s.seq); message != 0 && !known {
		p.released = append(p.released, queueRow{s, message})
	}
}

func (p *plan) dequeue(s queueKey) {
	i, known := p.rowOf[s]
	message := p.counts.find(s.session, s.seq)
	switch {
	case known && i != deletedRow:
		p.addRefs(p.enqueued[i].Message, -1)
		p.enqueued[i].Message = nil
		delete(p.rowOf, s)
		if message != 0 { // the stored row was dequeued before this one was enqueued
			p.rowOf[s] = deletedRow
		}
	case message != 0 && !known:
		p.deleteRow(queueRow{s, message})
	}
}

func (p *plan) deleteRow(r queueRow) {
	p.rowOf[r.queueKey] = deletedRow
	p.dequeued = append(p.dequeued, r)
	p.change(r.message).delta--
}

// deleteQueue deletes the remaining queue rows of a session.
func (p *plan) deleteQueue(session uint64) {
	q := p.counts.queues[session]
	if q == nil {
		return
	}
	for _, w := range q.waiting {
		s := queueKey{session, w.seq}
		if _, left := p.rowOf[s]; !left && w.message != 0 {
			p.deleteRow(queueRow{s, w.message})
		}
	}
}

// countRetained counts the references that topics add and remove.
func (p *plan) countRetained() {
	for topic, m := range p.retained {
		before := p.counts.retained[topic]
		if m != nil && m.ID == before {
			continue
		}
		if before != 0 {
			u := p.change(before)
			u.delta--
			u.retained = -1
		}
		if m != nil {
			p.addRefs(m, 1).retained = 1
		}
	}
}

func (p *plan) addRefs(m *engine.Message, delta int) *refChange {
	u := p.change(m.ID)
	u.message = m
	u.delta += delta
	return u
}

// change returns the reference change of a message. The pointer is valid until the next
// call.
func (p *plan) change(id uint64) *refChange {
	i, ok := p.changeOf[id]
	if !ok {
		i = len(p.changes)
		p.changeOf[id] = i
		p.changes = append(p.changes, refChange{id: id})
	}
	return &p.changes[i]
}

func (p *plan) hasEnded(session uint64) bool {
	if len(p.ended) == 0 {
		return false
	}
	_, ok := p.ended[session]
	return ok
}

// span is a range of message IDs, both ends included.
type span struct{ from, to uint64 }

// writes are the changes to the message table that a plan leads to.
type writes struct {
	put     []refChange // in order of IDs
	changed []refChange // messages of which only the retained flag changes
	deleted []uint64    // in order
	spans   []span      // of deleted
}

// writes fills f from the plan and reuses its memory.
func (p *plan) writes(f *writes) {
	f.put, f.changed, f.deleted, f.spans = f.put[:0], f.changed[:0], f.deleted[:0], f.spans[:0]
	for _, u := range p.changes {
		before := p.counts.refs[u.id]
		switch after := before + u.delta; {
		case before == 0 && after > 0:
			f.put = append(f.put, u)
		case before > 0 && after == 0:
			f.deleted = append(f.deleted, u.id)
		case before > 0 && u.retained != 0:
			f.changed = append(f.changed, u)
		}
	}
	slices.SortFunc(f.put, func(a, b refChange) int { return cmp.Compare(a.id, b.id) })
	slices.Sort(f.deleted)
	for _, id := range f.deleted {
		f.spans = extend(f.spans, id)
	}
}

// extend adds an ID to spans. Only adjacent IDs are joined: between others there may be
// messages that stay.
func extend(spans []span, id uint64) []span {
	if n := len(spans); n > 0 && spans[n-1].to+1 == id {
		spans[n-1].to = id
		return spans
	}
	return append(spans, span{id, id})
}

// staysStored reports whether a message of the plan is still referred to after it.
func (p *plan) staysStored(message uint64) bool {
	return p.counts.refs[message]+p.changes[p.changeOf[message]].delta > 0
}

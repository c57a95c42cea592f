package store

import (
	"cmp"
	"slices"

	"signalbox/broker/embedded/engine"
)

// plan is what a group of changes comes to in the tables that refer to each
// other. What comes and goes within the group is not in it, and a message is
// put or deleted only where its first reference comes or its last one goes.
type plan struct {
	books *ledger

	ended    map[uint64]struct{}        // sessions
	join     []engine.QueueRecord       // rows to be put; those with a nil Message left again
	leave    []place                    // stored rows to be deleted
	released []place                    // stored rows of which PUBREC came
	retained map[string]*engine.Message // by topic; nil clears
	uses     []use                      // of each message concerned
	at       map[seat]int               // index in join, or gone
	used     map[uint64]int             // index in uses, by message
}

// seat names a queue row as the engine does, place as the table does.
type seat struct{ session, seq uint64 }

type place struct {
	seat
	message uint64
}

// gone stands for a row that was stored and is deleted by the plan.
const gone = -1

// use is what becomes of the references to a message.
type use struct {
	id       uint64
	message  *engine.Message // nil where only references go
	delta    int
	retained int // 1 where a topic comes to retain it, -1 where one ceases to
}

func newPlan(books *ledger) *plan {
	return &plan{
		books: books,
		ended: map[uint64]struct{}{}, retained: map[string]*engine.Message{}, at: map[seat]int{}, used: map[uint64]int{},
	}
}

// reset forgets everything, so that the memory can be used again.
func (p *plan) reset() {
	clear(p.join)
	clear(p.uses)
	p.join, p.leave, p.released, p.uses = p.join[:0], p.leave[:0], p.released[:0], p.uses[:0]
	p.ended, p.retained = emptied(p.ended), emptied(p.retained)
	p.at, p.used = emptied(p.at), emptied(p.used)
}

// emptied gives an empty map, the same one unless it is so large that emptying
// it each time would cost more than growing a new one.
func emptied[K comparable, V any](m map[K]V) map[K]V {
	if len(m) > 8*groupChanges {
		return map[K]V{}
	}
	clear(m)
	return m
}

// draw fills the plan from a group. Nothing of a session that ends in the group
// is put, whatever the order: its number is never used again.
func (p *plan) draw(group []*engine.Changes) {
	for _, c := range group {
		for _, session := range c.EndedSessions {
			p.ended[session] = struct{}{}
		}
	}
	for _, c := range group {
		p.add(c)
	}
	for session := range p.ended {
		p.vacate(session)
	}
	p.exchange()
}

func (p *plan) add(c *engine.Changes) {
	for i := range c.Enqueued {
		p.enqueue(&c.Enqueued[i])
	}
	for i := range c.Released {
		p.release(seat{c.Released[i].SessionID, c.Released[i].Seq})
	}
	for _, r := range c.Retained {
		p.retained[r.Topic] = r.Message
	}
	for i := range c.Dequeued {
		p.dequeue(seat{c.Dequeued[i].SessionID, c.Dequeued[i].Seq})
	}
}

func (p *plan) enqueue(r *engine.QueueRecord) {
	if p.hasEnded(r.SessionID) {
		return
	}
	p.at[seat{r.SessionID, r.Seq}] = len(p.join)
	p.join = append(p.join, *r)
	p.refer(r.Message, 1)
}

func (p *plan) release(s seat) {
	i, known := p.at[s]
	if known && i != gone {
		p.join[i].Released = true
		return
	}
	if message := p.books.find(s.session, s.seq); message != 0 && !known {
		p.released = append(p.released, place{s, message})
	}
}

func (p *plan) dequeue(s seat) {
	i, known := p.at[s]
	message := p.books.find(s.session, s.seq)
	switch {
	case known && i != gone:
		p.refer(p.join[i].Message, -1)
		p.join[i].Message = nil
		delete(p.at, s)
		if message != 0 { // a row that was there before has left already
			p.at[s] = gone
		}
	case message != 0 && !known:
		p.vanish(place{s, message})
	}
}

func (p *plan) vanish(r place) {
	p.at[r.seat] = gone
	p.leave = append(p.leave, r)
	p.use(r.message).delta--
}

// vacate deletes what still waits for a session.
func (p *plan) vacate(session uint64) {
	q := p.books.lines[session]
	if q == nil {
		return
	}
	for _, w := range q.waiting {
		s := seat{session, w.seq}
		if _, left := p.at[s]; !left && w.message != 0 {
			p.vanish(place{s, w.message})
		}
	}
}

// exchange counts the messages that topics come to retain and cease to.
func (p *plan) exchange() {
	for topic, m := range p.retained {
		before := p.books.retained[topic]
		if m != nil && m.ID == before {
			continue
		}
		if before != 0 {
			u := p.use(before)
			u.delta--
			u.retained = -1
		}
		if m != nil {
			p.refer(m, 1).retained = 1
		}
	}
}

func (p *plan) refer(m *engine.Message, delta int) *use {
	u := p.use(m.ID)
	u.message = m
	u.delta += delta
	return u
}

// use gives the account of a message, valid until the next call.
func (p *plan) use(id uint64) *use {
	i, ok := p.used[id]
	if !ok {
		i = len(p.uses)
		p.used[id] = i
		p.uses = append(p.uses, use{id: id})
	}
	return &p.uses[i]
}

func (p *plan) hasEnded(session uint64) bool {
	if len(p.ended) == 0 {
		return false
	}
	_, ok := p.ended[session]
	return ok
}

// span is a range of message numbers, both ends included.
type span struct{ from, to uint64 }

// fates are what becomes of the messages of a plan.
type fates struct {
	put     []use    // in order of their numbers
	changed []use    // only whether a topic retains them
	dead    []uint64 // in order
	spans   []span   // of dead
}

// fates tells the messages apart, in the memory of those before.
func (p *plan) fates(f *fates) {
	f.put, f.changed, f.dead, f.spans = f.put[:0], f.changed[:0], f.dead[:0], f.spans[:0]
	for _, u := range p.uses {
		before := p.books.refs[u.id]
		switch after := before + u.delta; {
		case before == 0 && after > 0:
			f.put = append(f.put, u)
		case before > 0 && after == 0:
			f.dead = append(f.dead, u.id)
		case before > 0 && u.retained != 0:
			f.changed = append(f.changed, u)
		}
	}
	slices.SortFunc(f.put, func(a, b use) int { return cmp.Compare(a.id, b.id) })
	slices.Sort(f.dead)
	for _, id := range f.dead {
		f.spans = extend(f.spans, id)
	}
}

// extend adds a number to spans. Only neighbours join: between others there may
// be messages that stay.
func extend(spans []span, id uint64) []span {
	if n := len(spans); n > 0 && spans[n-1].to+1 == id {
		spans[n-1].to = id
		return spans
	}
	return append(spans, span{id, id})
}

// survives tells whether a message that the plan concerns stays stored.
func (p *plan) survives(message uint64) bool {
	return p.books.refs[message]+p.uses[p.used[message]].delta > 0
}

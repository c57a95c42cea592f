package engine

import (
	"sync"
	"sync/atomic"

	"signalbox/broker/mqtt/packet"
)

// waiting is an acknowledgement that goes out when its changes are stored.
type pendingAck struct {
	Changes
	conn    *Conn
	kind    byte // of the acknowledgement
	number  uint64
	session *Session
}

// Committed sends the acknowledgement, and lets a message of QoS 2 whose release
// was stored be released again on another connection. Where it was not stored
// nothing is sent that says so.
func (w *pendingAck) Committed(_ *Changes, err error) {
	if err != nil && w.session.isStored() {
		w.conn.endUncertain()
		return
	}
	for _, r := range w.Released {
		flush, _ := w.session.messageCommitted(r.Seq, true)
		w.conn.engine.later(flush)
	}
	w.conn.pay(w.kind, w.number, packet.ReasonSuccess)
	w.conn.engine.later(w.conn)
}

// publication is a message that is being stored, with those who wait for that.
type publication struct {
	Changes
	engine   *Engine
	era      *era       // in which it was made
	flux     *flux      // of Retained; nil without
	sessions []*Session // of Enqueued, one each
	conn     *Conn      // the publisher's, nil for the broker itself
	kind     byte       // of its acknowledgement
	number   uint64     // of that
	owes     bool       // there is one
	incoming uint16     // packet identifier of QoS 2, to be freed on failure; 0 for none
	willOf   *Session   // whose Will it is, to be put without it; nil for none
	withdraw func()     // called on failure; nil for none
	done     chan error // for the broker itself; nil where nobody waits

	held     atomic.Int32 // by taps, and once while it is made; it is stored when nobody holds it any more
	failed   atomic.Pointer[error]
	waits    atomic.Int32 // with whom it waits to be acknowledged, itself included; 0 for nobody but itself
	of       *publication // that this one is a part of; nil for none
	agreed   bool         // it is Retained only, and decided by a log
	apart    bool         // that one waits for this with its acknowledgement only
	over     bool         // a recipient's quota forbade it to be stored
	accepted bool         // some recipient has it
	receipt  Receipt      // of another node; nil for none
	repeats  []repetition // of the packet, to be answered with it; guarded by the session's mu
}

// repetition is a place that is kept for the answer to a packet that came again.
type repetition struct {
	conn   *Conn
	number uint64
}

var publications = sync.Pool{New: func() any { return new(publication) }}

func (e *Engine) newPublication() *publication {
	p := publications.Get().(*publication)
	p.engine, p.era = e, e.era.Load()
	p.Changes.Done = p
	p.held.Store(1)
	return p
}

// empty tells whether there is nothing to be stored.
func (p *publication) empty() bool {
	return len(p.Enqueued) == 0 && len(p.Retained) == 0 && len(p.Received) == 0 && len(p.Dequeued) == 0 &&
		len(p.EndedSessions) == 0 && p.willOf == nil
}

// settled tells whether there is nothing to wait for. It is asked by who makes
// the publication.
func (p *publication) isComplete() bool {
	return p.empty() && !p.isHeld() && p.waits.Load() == 0 && p.failed.Load() == nil
}

// isHeld tells whether somebody else holds the publication. It is asked by who
// makes it.
func (p *publication) isHeld() bool { return p.held.Load() > 1 }

// hold keeps the publication from being stored and acknowledged.
func (p *publication) hold() { p.held.Add(1) }

// part ends a hold. With the last one the publication is stored or, where one
// failed, taken back.
func (p *publication) part(err error) {
	p.fail(err)
	if p.held.Add(-1) > 0 {
		return
	}
	switch failed := p.failed.Load(); {
	case failed != nil:
		p.Committed(nil, *failed)
	case p.empty():
		p.leave(nil)
	default:
		p.engine.keep(p)
	}
}

// fail notes the first error that there is.
func (p *publication) fail(err error) {
	if err != nil {
		p.failed.CompareAndSwap(nil, &err)
	}
}

// wait keeps the publication from being acknowledged, though not from being
// stored. It is called by who makes it.
func (p *publication) wait() {
	if p.waits.Load() == 0 {
		p.waits.Add(1) // for itself
	}
	p.waits.Add(1)
}

// leave ends what wait began, and the publication's own wait for the store.
// After the last of them it is acknowledged or, where one failed, refused.
func (p *publication) leave(err error) {
	if p.waits.Load() == 0 {
		p.finish(err)
		return
	}
	p.fail(err)
	if p.waits.Add(-1) > 0 {
		return
	}
	if failed := p.failed.Load(); failed != nil {
		err = *failed
	}
	p.finish(err)
}

// recycle gives the publication back.
func (p *publication) recycle() {
	clear(p.sessions)
	clear(p.Messages)
	clear(p.Enqueued)
	clear(p.Retained)
	clear(p.Dequeued)
	clear(p.repeats)
	*p = publication{
		sessions: p.sessions[:0], repeats: p.repeats[:0],
		Changes: Changes{
			Messages: p.Messages[:0], Enqueued: p.Enqueued[:0],
			Received: p.Received[:0], Retained: p.Retained[:0], Dequeued: p.Dequeued[:0],
		},
	}
	publications.Put(p)
}

// Committed lets the message go to those it was stored for; or, where it could not
// be stored, takes it back.
func (p *publication) Committed(_ *Changes, err error) {
	e := p.engine
	for i, r := range p.Enqueued {
		s := p.sessions[i]
		flush, left := s.messageCommitted(r.Seq, err == nil && s.era == p.era)
		if left { // its end may have been stored before the message
			p.era.submit(&Changes{Owed: true, Dequeued: []QueueRecord{r}})
		}
		e.later(flush)
	}
	for _, r := range p.Retained {
		if p.agreed {
			e.retained.answered(r, err == nil, e.foreseenUntil())
		} else {
			e.retained.committed(p.flux, r, err == nil)
		}
	}
	p.leave(err)
}

// finish acknowledges the message to its publisher, or refuses it, and likewise
// what repeated it meanwhile.
func (p *publication) finish(err error) {
	if p.owes {
		p.pay(repetition{p.conn, p.number}, err)
	}
	if p.incoming != 0 {
		p.conn.session.answered(p, err == nil)
		for _, r := range p.repeats {
			p.pay(r, err)
		}
	}
	if p.withdraw != nil && err != nil {
		p.withdraw()
	}
	if p.done != nil {
		p.done <- err
	}
	if p.receipt != nil {
		p.receipt.Committed(err)
	}
	switch {
	case p.of == nil:
	case p.apart:
		p.of.leave(err)
	default:
		p.of.part(err)
	}
	p.recycle()
}

// pay sends an answer for which a place is kept. A client that were told that a
// message is refused which is stored after all could use its packet identifier
// for another one; so where that is not known it is told nothing.
func (p *publication) pay(r repetition, err error) {
	refused := packet.ReasonSuccess
	if err != nil {
		refused = packet.ReasonQuotaExceeded
	}
	switch {
	case r.conn.untold(err):
		r.conn.endUncertain()
		return
	case err != nil && r.conn.version < 5:
		r.conn.endUnacknowledged()
		return
	}
	r.conn.pay(p.kind, r.number, refused)
	p.engine.later(r.conn)
}

// later has a connection flushed by the goroutine that does so for the store.
func (e *Engine) later(c *Conn) {
	if !c.touch() {
		return
	}
	e.flushing.Lock()
	e.toFlush = append(e.toFlush, c)
	e.flushing.Unlock()
	select {
	case e.flushNow <- struct{}{}:
	default:
	}
}

// flushLater flushes connections for the store, which must not wait. While it
// does, more gathers; so many messages go out at once.
func (e *Engine) flushLater() {
	var batch []*Conn
	for {
		select {
		case <-e.flushNow:
		case <-e.stopped:
			return
		}
		e.flushing.Lock()
		batch, e.toFlush = e.toFlush, batch[:0]
		e.flushing.Unlock()
		for i, c := range batch {
			batch[i] = nil
			c.flush()
		}
	}
}

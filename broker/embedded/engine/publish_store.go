package engine

import (
	"sync"
	"sync/atomic"

	"signalbox/broker/mqtt/packet"
)

// Step 4 of a publish: store. What must be durable of a message is one publication,
// which the store commits as a whole.

// publication is a message that is being stored, with those who wait for that.
type publication struct {
	Changes
	engine          *Engine
	generation      *generation      // in which it was made
	pendingRetained *pendingRetained // of Retained; nil without
	sessions        []*Session       // of Enqueued, one each
	conn            *Conn            // the publisher's, nil for the broker itself
	kind            byte             // of its acknowledgement
	number          uint64           // of that
	ackReserved     bool             // there is one
	incoming        uint16           // packet identifier of QoS 2, to be freed on failure; 0 for none
	willOf          *Session         // whose Will it is, to be put without it; nil for none
	withdraw        func()           // called on failure; nil for none
	done            chan error       // for the broker itself; nil where no caller waits

	storeRefs  atomic.Int32 // by taps, and once while it is made; it is stored when it is held no longer
	failed     atomic.Pointer[error]
	ackRefs    atomic.Int32  // what waits for its outcome with it, itself included; 0 for itself alone
	parent     *publication  // that this one is a part of; nil for none
	agreed     bool          // it is Retained only, and decided by a log
	ackOnly    bool          // that one waits for this with its acknowledgement only
	over       bool          // a recipient's quota forbade it to be stored
	accepted   bool          // some recipient has it
	receipt    Receipt       // of another node; nil for none
	duplicates []reservedAck // of the packet, to be answered with it; guarded by the session's mu
}

var publications = sync.Pool{New: func() any { return new(publication) }}

func (e *Engine) newPublication() *publication {
	p := publications.Get().(*publication)
	p.engine, p.generation = e, e.generation.Load()
	p.Changes.Done = p
	p.storeRefs.Store(1)
	return p
}

// recycle returns the publication to its pool.
func (p *publication) recycle() {
	clear(p.sessions)
	clear(p.Messages)
	clear(p.Enqueued)
	clear(p.Retained)
	clear(p.Dequeued)
	clear(p.duplicates)
	*p = publication{
		sessions: p.sessions[:0], duplicates: p.duplicates[:0],
		Changes: Changes{
			Messages: p.Messages[:0], Enqueued: p.Enqueued[:0],
			Received: p.Received[:0], Retained: p.Retained[:0], Dequeued: p.Dequeued[:0],
		},
	}
	publications.Put(p)
}

// store hands a message of the client to the store, with a place reserved for its
// acknowledgement; or acknowledges it, where nothing of it is stored.
func (c *Conn) store(pk *packet.Publish, pub *publication, reached bool) {
	kind, reason := packet.TypePuback, packet.ReasonSuccess
	if pk.QoS == 2 {
		kind = packet.TypePubrec
	}
	if !reached && c.version >= 5 && pk.QoS == 1 { // no answer at QoS 2 reports it
		reason = packet.ReasonNoMatchingSubscribers
	}
	if pub.isComplete() {
		pub.recycle()
		if pk.QoS > 0 {
			c.acknowledge(kind, pk.PacketID, reason)
		}
		return
	}
	if pk.QoS == 2 {
		c.session.await(pub)
	}
	if pk.QoS > 0 {
		pub.ackReserved, pub.kind, pub.number = true, kind, c.reserveAck(kind, pk.PacketID, reason)
	}
	pub.store()
}

// store submits the publication once no tap and no other node holds it. It belongs to
// the store and to those who hold it from then on.
func (p *publication) store() { p.releaseStore(nil) }

// storeAny is store for a publication of which there may be nothing to store and
// nothing to wait for. It reports whether there is something.
func (p *publication) storeAny() bool {
	if p.isComplete() {
		p.recycle()
		return false
	}
	p.store()
	return true
}

// empty reports whether there is nothing to be stored.
func (p *publication) empty() bool {
	return len(p.Enqueued) == 0 && len(p.Retained) == 0 && len(p.Received) == 0 && len(p.Dequeued) == 0 &&
		len(p.EndedSessions) == 0 && p.willOf == nil
}

// isComplete reports whether there is nothing to wait for. It is asked by who makes
// the publication.
func (p *publication) isComplete() bool {
	return p.empty() && !p.storeBlocked() && p.ackRefs.Load() == 0 && p.failed.Load() == nil
}

// storeBlocked reports whether a caller holds the publication back. It is asked by who
// makes it.
func (p *publication) storeBlocked() bool { return p.storeRefs.Load() > 1 }

// acquireStore keeps the publication from being stored and acknowledged.
func (p *publication) acquireStore() { p.storeRefs.Add(1) }

// releaseStore ends a hold. With the last one the publication is stored or, where one
// failed, taken back.
func (p *publication) releaseStore(err error) {
	p.fail(err)
	if p.storeRefs.Add(-1) > 0 {
		return
	}
	switch failed := p.failed.Load(); {
	case failed != nil:
		p.Committed(nil, *failed)
	case p.empty():
		p.releaseAck(nil)
	default:
		p.submit()
	}
}

// submit hands the changes of the publication to the store.
func (p *publication) submit() {
	if m := p.message(); m != nil {
		if m.ID == 0 {
			m.ID = p.engine.lastMessage.Add(1)
		}
		p.Messages = append(p.Messages, m)
	}
	if s := p.willOf; s != nil {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.put(&p.Changes)
		return
	}
	p.generation.submit(&p.Changes)
}

// message returns the message to be stored, nil if nothing refers to one.
func (p *publication) message() *Message {
	if len(p.Enqueued) > 0 {
		return p.Enqueued[0].Message
	}
	if len(p.Retained) > 0 {
		return p.Retained[0].Message
	}
	return nil
}

// Committed lets the message go to those it was stored for; or, where it could not
// be stored, takes it back.
func (p *publication) Committed(_ *Changes, err error) {
	e := p.engine
	for i, r := range p.Enqueued {
		s := p.sessions[i]
		flush, left := s.messageCommitted(r.Seq, err == nil && s.generation == p.generation)
		if left { // its end may have been stored before the message
			p.generation.submit(&Changes{Owed: true, Dequeued: []QueueRecord{r}})
		}
		e.flushDeferred(flush)
	}
	for _, r := range p.Retained {
		if p.agreed {
			e.retained.agreedOutcome(r, err == nil, e.unconfirmedUntil())
		} else {
			e.retained.committed(p.pendingRetained, r, err == nil)
		}
	}
	p.releaseAck(err)
}

// fail notes the first error that there is.
func (p *publication) fail(err error) {
	if err != nil {
		p.failed.CompareAndSwap(nil, &err)
	}
}

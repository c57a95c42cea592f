package engine

import (
	"sync"
	"sync/atomic"

	"signalbox/broker/mqtt/packet"
)

// Step 4 of a publish: store. Everything that must be durable of a message is one
// publication, which the store commits atomically.

// publication is a message that is being stored, with what waits for its outcome.
type publication struct {
	Changes
	engine          *Engine
	generation      *generation      // at the time when it was made
	pendingRetained *pendingRetained // of Retained; nil without
	sessions        []*Session       // of Enqueued, by index
	conn            *Conn            // the publisher's, nil for the broker itself
	kind            byte             // of its acknowledgement
	number          uint64           // of its acknowledgement
	ackReserved     bool             // there is an acknowledgement
	incoming        uint16           // packet identifier of QoS 2, to be freed on failure; 0 for none
	willOf          *Session         // the session to be put without its Will; nil for none
	withdraw        func()           // called on failure; nil for none
	done            chan error       // outcome, for the broker itself; nil if no caller waits

	storeRefs  atomic.Int32 // of taps and peers, and one while it is made; at 0 it is submitted
	failed     atomic.Pointer[error]
	ackRefs    atomic.Int32  // of the store and other nodes; 0 if it waits for the store only
	parent     *publication  // that waits for this one; nil for none
	agreed     bool          // only Retained, and decided by a log
	ackOnly    bool          // parent waits with its acknowledgement only
	over       bool          // the quota of a recipient was reached
	accepted   bool          // some recipient has it
	receipt    Receipt       // of another node; nil for none
	duplicates []reservedAck // duplicates of the packet, answered with it; guarded by the session's mu
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

// store reserves the place of the acknowledgement and submits the publication. If nothing of
// the message is stored, it is acknowledged at once.
func (c *Conn) store(pk *packet.Publish, pub *publication, reached bool) {
	kind, reason := packet.TypePuback, packet.ReasonSuccess
	if pk.QoS == 2 {
		kind = packet.TypePubrec
	}
	if !reached && c.version >= 5 && pk.QoS == 1 { // not at QoS 2
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

// store ends the making of the publication: it is submitted once no tap and no other node
// holds a reference. The caller must not use it afterwards.
func (p *publication) store() { p.releaseStore(nil) }

// storeAny is store for a publication that may have nothing to store and nothing to wait
// for. It reports whether it has.
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

// isComplete reports whether there is nothing to wait for. It is called only while the
// publication is being made.
func (p *publication) isComplete() bool {
	return p.empty() && !p.storeBlocked() && p.ackRefs.Load() == 0 && p.failed.Load() == nil
}

// storeBlocked reports whether a tap or a peer delays the store. It is called only while the
// publication is being made.
func (p *publication) storeBlocked() bool { return p.storeRefs.Load() > 1 }

// acquireStore delays the store and the acknowledgement until releaseStore.
func (p *publication) acquireStore() { p.storeRefs.Add(1) }

// releaseStore releases one reference. After the last one the publication is submitted or, if
// one failed, refused.
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

// submit submits the changes of the publication to the store.
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

// Committed lets the message be sent to the recipients for whom it was stored. If it could
// not be stored, it is removed from their queues.
func (p *publication) Committed(_ *Changes, err error) {
	e := p.engine
	for i, r := range p.Enqueued {
		s := p.sessions[i]
		flush, left := s.messageCommitted(r.Seq, err == nil && s.generation == p.generation)
		if left { // the end of the session may have been committed before the message
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

// fail records the first error.
func (p *publication) fail(err error) {
	if err != nil {
		p.failed.CompareAndSwap(nil, &err)
	}
}

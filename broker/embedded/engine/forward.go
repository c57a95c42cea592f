package engine

import (
	"errors"

	"signalbox/broker/mqtt/topics"
)

// peerTarget is a peer to which a message is forwarded.
type peerTarget struct {
	peer      *Peer
	qos       byte
	temporary bool
}

func newPeerTarget(s *Session, qos byte) peerTarget {
	return peerTarget{s.peer, qos, s == s.peer.temporary}
}

// sharedTarget is a peer that was chosen for a shared subscription.
type sharedTarget struct {
	peerTarget
	share string
}

// forward passes a message to the links of the peers that are subscribed or chosen,
// or of all.
func (e *Engine) forward(m *Message, everywhere bool, direct []peerTarget, chosen []sharedTarget, pub *publication) {
	peers := e.peers.Load()
	if peers == nil {
		return
	}
	for _, p := range *peers {
		c := Forward{Direct: everywhere, Temporary: true}
		for _, b := range direct {
			if b.peer == p {
				c.Direct, c.QoS, c.Temporary = true, max(c.QoS, b.qos), c.Temporary && b.temporary
			}
		}
		for _, b := range chosen {
			if b.peer == p {
				c.Shares, c.QoS, c.Temporary = append(c.Shares, b.share), max(c.QoS, b.qos), c.Temporary && b.temporary
			}
		}
		if c.Direct || len(c.Shares) > 0 {
			c.QoS = min(c.QoS, m.QoS)
			c.Receipt = pub.receiptFor(c.QoS)
			p.link.Take(m, c)
		}
	}
}

// receiptFor returns a receipt that delays the acknowledgement of a publication until a peer
// has the message. If the publication stores a packet identifier of QoS 2, by which the
// sender need not send the message again, the receipt delays the store too. An owed
// publication has no acknowledgement to delay.
func (p *publication) receiptFor(qos byte) Receipt {
	switch {
	case qos == 0 || p.Owed:
		return nil
	case len(p.Received) > 0:
		p.acquireStore()
		return (*storeBarrier)(p)
	}
	p.acquireAck()
	return (*ackBarrier)(p)
}

// ackBarrier delays the acknowledgement of a publication, but not the store.
type ackBarrier publication

// Committed releases the acknowledgement, or refuses the message.
func (a *ackBarrier) Committed(err error) { (*publication)(a).releaseAck(unlessGone(err)) }

// storeBarrier delays the store and the acknowledgement of a publication.
type storeBarrier publication

// Committed releases the publication to the store, or refuses the message.
func (s *storeBarrier) Committed(err error) { (*publication)(s).releaseStore(unlessGone(err)) }

// unlessGone returns err, or nil for ErrGone: a publisher does not wait for the subscribers
// of a node that is unreachable.
func unlessGone(err error) error {
	if errors.Is(err, ErrGone) {
		return nil
	}
	return err
}

// forwardQueued forwards a queued message to a peer's member of its shared subscription. The
// store has it in the session's queue until the peer has it.
func (e *Engine) forwardQueued(from *Session, r QueueRecord, member topics.Member[*Session]) {
	to := newPeerTarget(member.Who, min(r.Message.QoS, member.QoS))
	c := Forward{Shares: []string{r.Share}, QoS: to.qos, Kept: true, Temporary: to.temporary}
	move := &queuedForward{from, r}
	if c.QoS > 0 {
		c.Receipt = move
	}
	to.peer.link.Take(r.Message.clone(), c)
	if c.QoS == 0 {
		move.Committed(nil)
	}
}

// queuedForward is a message that is moving from a session's queue to another node.
type queuedForward struct {
	from *Session
	r    QueueRecord
}

// Committed deletes the message from the store. If the peer could not take it, it is queued
// again, as the last one.
func (m *queuedForward) Committed(err error) {
	e := m.from.engine
	pub := e.newPublication()
	pub.Owed = true
	if m.from.isStored() {
		pub.Dequeued = append(pub.Dequeued, m.r)
	}
	var touched []*Conn
	if err != nil {
		back := outgoingMessage{message: m.r.Message.clone(), extra: newExtra(m.r.SubscriptionIDs, m.r.Share), qos: m.r.QoS, retain: m.r.Retain}
		e.enqueue(m.from, back, pub, &touched)
	}
	pub.storeAny()
	for _, c := range touched {
		e.flushDeferred(c)
	}
}

// Identify sets the number of this node, which is part of the Stamp of messages that it
// forwards.
func (e *Engine) Identify(node uint16) {
	e.stamps.Store(uint64(node)<<48 | uint64(e.now())<<7&(1<<48-1))
}

// stamp sets the Stamp of a message, before any recipient has it.
func (e *Engine) stamp(m *Message) {
	if m.Stamp == 0 {
		m.Stamp = e.stamps.Add(1)
	}
}

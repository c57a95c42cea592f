package engine

import (
	"errors"

	"signalbox/broker/mqtt/topics"
)

// peerTarget is a peer that a message goes to.
type peerTarget struct {
	peer *Peer
	qos  byte
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
		c := Forward{Direct: everywhere}
		for _, b := range direct {
			if b.peer == p {
				c.Direct, c.QoS = true, max(c.QoS, b.qos)
			}
		}
		for _, b := range chosen {
			if b.peer == p {
				c.Shares, c.QoS = append(c.Shares, b.share), max(c.QoS, b.qos)
			}
		}
		if c.Direct || len(c.Shares) > 0 {
			c.QoS = min(c.QoS, m.QoS)
			c.Receipt = pub.receiptFor(c.QoS)
			p.link.Take(m, c)
		}
	}
}

// receiptFor keeps a publication from being acknowledged until a peer has the
// message. It is not stored before either where that would say that its sender
// need not send it again. No acknowledgement waits for what is owed.
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

// ackBarrier keeps a message from being acknowledged, but not from being
// stored.
type ackBarrier publication

// Committed lets the message be acknowledged, or refuses it.
func (a *ackBarrier) Committed(err error) { (*publication)(a).releaseAck(unlessGone(err)) }

// storeBarrier keeps a message from being stored, and acknowledged.
type storeBarrier publication

// Committed lets the message be stored, or refuses it.
func (s *storeBarrier) Committed(err error) { (*publication)(s).releaseStore(unlessGone(err)) }

// unlessGone is an error, but for that of a node that has gone: its subscribers are
// gone with it, and no publisher is kept from the others.
func unlessGone(err error) error {
	if errors.Is(err, ErrGone) {
		return nil
	}
	return err
}

// forwardQueued passes a message out of a queue to a peer's member of the shared
// subscription it came by. It is the session's until the peer has it.
func (e *Engine) forwardQueued(from *Session, r QueueRecord, member topics.Member[*Session]) {
	c := Forward{Shares: []string{r.Share}, QoS: min(r.Message.QoS, member.QoS), Kept: true}
	move := &queuedForward{from, r}
	if c.QoS > 0 {
		c.Receipt = move
	}
	member.Who.peer.link.Take(r.Message.again(), c)
	if c.QoS == 0 {
		move.Committed(nil)
	}
}

// queuedForward is a message on its way out of a session's queue to another node.
type queuedForward struct {
	from *Session
	r    QueueRecord
}

// Committed has the store forget the message; or puts it back, where it is the
// last.
func (m *queuedForward) Committed(err error) {
	e := m.from.engine
	pub := e.newPublication()
	pub.Owed = true
	if m.from.isStored() {
		pub.Dequeued = append(pub.Dequeued, m.r)
	}
	var touched []*Conn
	if err != nil {
		back := outgoingMessage{message: m.r.Message.again(), extra: newExtra(m.r.SubscriptionIDs, m.r.Share), qos: m.r.QoS, retain: m.r.Retain}
		e.enqueue(m.from, back, pub, &touched)
	}
	pub.storeAny()
	for _, c := range touched {
		e.flushDeferred(c)
	}
}

// Identify sets the number of this node, from which messages that cross to
// others have their Stamp.
func (e *Engine) Identify(node uint16) {
	e.stamps.Store(uint64(node)<<48 | uint64(e.now())<<7&(1<<48-1))
}

// stamp marks a message that is forwarded to other nodes, before anybody has it.
func (e *Engine) stamp(m *Message) {
	if m.Stamp == 0 {
		m.Stamp = e.stamps.Add(1)
	}
}

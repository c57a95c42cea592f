package engine

import (
	"errors"

	"signalbox/broker/mqtt/topics"
)

// bound is a peer that a message goes to.
type bound struct {
	peer *Peer
	qos  byte
}

// choice is a peer that was chosen for a shared subscription.
type choice struct {
	bound
	share string
}

// cross gives a message to the links of the peers that are subscribed or chosen,
// or of all.
func (e *Engine) cross(m *Message, everywhere bool, direct []bound, chosen []choice, pub *publication) {
	peers := e.peers.Load()
	if peers == nil {
		return
	}
	for _, p := range *peers {
		c := Crossing{Direct: everywhere}
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
// need not send it again. What is owed is acknowledged to nobody.
func (p *publication) receiptFor(qos byte) Receipt {
	switch {
	case qos == 0 || p.Owed:
		return nil
	case len(p.Received) > 0:
		p.hold()
		return (*storeBarrier)(p)
	}
	p.wait()
	return (*ackBarrier)(p)
}

// acknowledgedLater keeps a message from being acknowledged, but not from being
// stored.
type ackBarrier publication

// Committed lets the message be acknowledged, or refuses it.
func (a *ackBarrier) Committed(err error) { (*publication)(a).leave(unlessGone(err)) }

// storedLater keeps a message from being stored, and acknowledged.
type storeBarrier publication

// Committed lets the message be stored, or refuses it.
func (s *storeBarrier) Committed(err error) { (*publication)(s).part(unlessGone(err)) }

// unlessGone is an error, but for that of a node that is gone: its subscribers are
// gone with it, and no publisher is kept from the others.
func unlessGone(err error) error {
	if errors.Is(err, ErrGone) {
		return nil
	}
	return err
}

// handAbroad gives a message out of a queue to a peer's member of the shared
// subscription it came by. It is the session's until the peer has it.
func (e *Engine) handAbroad(from *Session, r QueueRecord, member topics.Member[*Session]) {
	c := Crossing{Shares: []string{r.Share}, QoS: min(r.Message.QoS, member.QoS), Kept: true}
	move := &move{from, r}
	if c.QoS > 0 {
		c.Receipt = move
	}
	member.Who.peer.link.Take(r.Message.again(), c)
	if c.QoS == 0 {
		move.Committed(nil)
	}
}

// move is a message on its way out of a session's queue to another node.
type move struct {
	from *Session
	r    QueueRecord
}

// Committed has the store forget the message; or puts it back, where it is the
// last.
func (m *move) Committed(err error) {
	e := m.from.engine
	pub := e.newPublication()
	pub.Owed = true
	if m.from.isStored() {
		pub.Dequeued = append(pub.Dequeued, m.r)
	}
	var touched []*Conn
	if err != nil {
		back := offer{message: m.r.Message.again(), extra: newExtra(m.r.SubscriptionIDs, m.r.Share), qos: m.r.QoS, retain: m.r.Retain}
		e.hand(m.from, back, pub, &touched)
	}
	e.submitAny(pub)
	for _, c := range touched {
		e.later(c)
	}
}

// Identify sets the number of this node, from which messages that cross to
// others have their Stamp.
func (e *Engine) Identify(node uint16) {
	e.stamps.Store(uint64(node)<<48 | uint64(e.now())<<7&(1<<48-1))
}

// stamp marks a message that crosses to other nodes, before anybody has it.
func (e *Engine) stamp(m *Message) {
	if m.Stamp == 0 {
		m.Stamp = e.stamps.Add(1)
	}
}

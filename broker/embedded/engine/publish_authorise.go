package engine

import (
	"errors"
	"slices"

	"signalbox/broker/mqtt/packet"
	"signalbox/broker/mqtt/topics"
)

// Step 2 of a publish: authorise. It checks whether the client may publish to the topic and
// whether the broker can accept the message, and answers messages that are refused.

// authorise reports whether the client may publish to the topic of the route. A message that
// it may not publish is answered and dropped. Rights.Allowed was asked when the route was
// looked up (refresh), and is asked again after each change of rights.
func (c *Conn) authorise(pk *packet.Publish, r *route) bool {
	isNew := r.matches == nil
	c.engine.refresh(r, c.rights)
	if isNew {
		c.remember(r)
	}
	if !r.allowed {
		c.deny(pk, r.topic)
	}
	return r.allowed
}

// deny answers a message that its sender may not publish: with a reason code in MQTT 5, and
// with a normal acknowledgement in older versions [MQTT-3.3.5-2].
func (c *Conn) deny(pk *packet.Publish, topic string) {
	c.engine.watcher.Denied(c.event(), Send, topic)
	reason := packet.ReasonNotAuthorized
	if c.version < 5 {
		reason = packet.ReasonSuccess
	}
	switch pk.QoS {
	case 1:
		c.acknowledge(packet.TypePuback, pk.PacketID, reason)
	case 2:
		if reason == packet.ReasonSuccess {
			c.session.receive(pk.PacketID) // in memory only: the message was not delivered
		}
		c.acknowledge(packet.TypePubrec, pk.PacketID, reason)
	}
}

// accept returns the message of a PUBLISH, and prepares its publication. It returns nil for a
// message that it has answered: a duplicate of QoS 2, or one that a quota, the state of the
// store or the loop guard of bridges refuses. The publication must not be used then.
func (c *Conn) accept(pk *packet.Publish, r *route, pub *publication) *Message {
	e := c.engine
	if pk.QoS == 2 {
		found, store := c.session.receive(pk.PacketID)
		if found != isNew {
			c.decline(pk, found)
			pub.recycle()
			return nil
		}
		if store {
			pub.Received = append(pub.Received, IncomingRecord{SessionID: c.session.id, PacketID: pk.PacketID})
		}
		pub.incoming = pk.PacketID
	}
	m := c.message(pk, r.topic)
	ok, storeErr := e.canStore(m, r)
	if c.isRedirected() || !ok {
		c.refuse(pk, storeErr)
		pub.recycle()
		return nil
	}
	pub.conn = c
	if c.version >= 5 && m.QoS > 0 && !e.mayRetain(m) {
		c.refuseQuota(pk)
		pub.recycle()
		return nil
	}
	if !e.passes(m, pub) {
		c.store(pk, pub, true)
		return nil
	}
	return m
}

// message returns the message of the packet. It copies the bytes, which are the reader's.
func (c *Conn) message(pk *packet.Publish, topic string) *Message {
	m := &Message{
		Topic: topic, QoS: pk.QoS, Retain: pk.Retain, CreatedAt: c.active.Load(),
		Publisher: c.session.clientID, Username: c.session.username,
	}
	both := make([]byte, len(pk.Payload)+len(pk.Properties))
	n := copy(both, pk.Payload)
	copy(both[n:], pk.Properties)
	m.Payload, m.Properties = both[:n:n], both[n:]
	if pk.HasExpiry {
		m.SetExpiry(pk.Expiry)
	}
	return m
}

// canStore reports whether a message can be stored as far as it must be, and returns the
// error of the store by which that was decided.
func (e *Engine) canStore(m *Message, r *route) (ok bool, err error) {
	retains := m.Retain && isDurable(m.Topic)
	if m.QoS == 0 && !retains {
		return true, nil
	}
	err = e.store.Err()
	switch now := e.generation.Load(); {
	case now.volatile: // its recipients are at another server
		return false, err
	case err == nil && now.admits.Load():
		return true, nil
	case m.QoS > 0 && (now.isRestoring() || errors.Is(err, ErrUncertain)): // its recipients are not known
		return false, err
	}
	return !retains && canQueue(m, r), err
}

// canQueue reports whether a message need not be stored for any of its recipients.
func canQueue(m *Message, r *route) bool {
	if m.QoS == 0 {
		return true
	}
	for i := range r.to {
		if r.to[i].terms.QoS > 0 && r.to[i].session.isStored() {
			return false
		}
	}
	for _, g := range r.matches.Groups {
		if slices.ContainsFunc(g.Members, func(m topics.Member[*Session]) bool { return isClient(m.Who) }) {
			return false
		}
	}
	return true
}

// decline answers a message of QoS 2 that is a duplicate or exceeds a quota.
func (c *Conn) decline(pk *packet.Publish, found arrived) {
	if found == isRepeated {
		c.repeat(pk.PacketID)
		return
	}
	c.refuseExcess(pk)
}

// refuseExcess answers a message of QoS 2 whose packet identifier would exceed a quota.
// Before MQTT 5 there is no such answer, and the connection ends.
func (c *Conn) refuseExcess(pk *packet.Publish) {
	c.engine.meters.drop(DropQuota, 1)
	if c.version < 5 {
		c.endUnacknowledged()
		return
	}
	c.acknowledge(packet.TypePubrec, pk.PacketID, packet.ReasonQuotaExceeded)
}

// repeat answers a duplicate of QoS 2, after the answer to the first if that was not sent
// yet. The duplicate does not count towards Receive Maximum.
func (c *Conn) repeat(id uint16) {
	c.mu.Lock()
	c.credit()
	c.mu.Unlock()
	if c.session.repeat(c, id) {
		return
	}
	c.acknowledge(packet.TypePubrec, id, packet.ReasonSuccess)
}

// refuseQuota answers a message of MQTT 5 that would exceed a quota.
func (c *Conn) refuseQuota(pk *packet.Publish) {
	kind := packet.TypePuback
	if pk.QoS == 2 {
		c.session.unreceive(pk.PacketID)
		kind = packet.TypePubrec
	}
	c.acknowledge(kind, pk.PacketID, packet.ReasonQuotaExceeded)
}

// refusedByQuota reports whether quotas kept the message from all its recipients. If only
// some are over their quota, they lose the message and the publisher is not refused:
// otherwise one full session that is subscribed to everything could stop all publishers. It
// is called only while the publication is being made.
func (p *publication) refusedByQuota() bool {
	return p.over && !p.accepted && !p.storeBlocked() && p.ackRefs.Load() == 0
}

// refuse answers a message that cannot be stored: with a reason code in MQTT 5, and with the
// end of the connection in older versions. If the clients are redirected or the outcome is
// uncertain, the connection ends in any version. storeErr is the error of the store when that
// was decided; the store may report another one by now.
func (c *Conn) refuse(pk *packet.Publish, storeErr error) {
	c.engine.meters.drop(DropNotStored, 1)
	if pk.QoS == 2 {
		c.session.unreceive(pk.PacketID)
	}
	switch {
	case pk.QoS == 0:
		return
	case c.isRedirected(), errors.Is(storeErr, ErrUncertain):
		c.endUncertain()
		return
	case c.version < 5:
		c.endUnacknowledged()
		return
	}
	kind := packet.TypePuback
	if pk.QoS == 2 {
		kind = packet.TypePubrec
	}
	c.acknowledge(kind, pk.PacketID, packet.ReasonQuotaExceeded)
}

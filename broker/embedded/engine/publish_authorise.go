package engine

import (
	"errors"
	"slices"
	"strings"

	"signalbox/broker/mqtt/packet"
	"signalbox/broker/mqtt/topics"
)

// Step 2 of a publish: authorise. Whether the client may publish to the topic, and
// whether the broker can take the message. What is refused is acknowledged here.

// authorise reports whether the client may publish to the topic of the route. A
// message that it may not publish is acknowledged and dropped.
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

// reserved reports whether only the broker publishes to a topic.
func reserved(topic string) bool {
	level, _, _ := strings.Cut(topic, "/")
	return level == "$SYS" || level == "$share"
}

// may asks the rights of the session's client.
func (s *Session) may(k Kind, topic string) bool {
	if s.peer != nil {
		return true // who may receive a message is decided where it goes
	}
	s.mu.Lock()
	rights := s.rights
	s.mu.Unlock()
	return rights != nil && rights.Allowed(k, topic)
}

// deny answers a message that its sender may not publish: MQTT 5 is told so,
// older versions get the acknowledgement of a message that was delivered
// [MQTT-3.3.5-2].
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
			c.session.receive(pk.PacketID) // in memory only: its message went nowhere
		}
		c.acknowledge(packet.TypePubrec, pk.PacketID, reason)
	}
}

// accept returns the message of a PUBLISH and its publication, or nil for one that is
// answered already: a duplicate of QoS 2, one that a quota, the state of the store or
// the loop guard of bridges keeps from being delivered.
func (c *Conn) accept(pk *packet.Publish, r *route) (*Message, *publication) {
	e := c.engine
	pub := e.newPublication()
	if pk.QoS == 2 {
		found, store := c.session.receive(pk.PacketID)
		if found != isNew {
			c.decline(pk, found)
			pub.recycle()
			return nil, nil
		}
		if store {
			pub.Received = append(pub.Received, IncomingRecord{SessionID: c.session.id, PacketID: pk.PacketID})
		}
		pub.incoming = pk.PacketID
	}
	m := c.message(pk, r.topic)
	storeErr := e.store.Err()
	if c.isRedirected() || !e.canStore(m, r, storeErr) { // the publication's generation has not ended before
		c.refuse(pk, storeErr)
		pub.recycle()
		return nil, nil
	}
	pub.conn = c
	if c.version >= 5 && m.QoS > 0 && !e.mayRetain(m) {
		c.refuseQuota(pk)
		pub.recycle()
		return nil, nil
	}
	if !e.passes(m, pub) {
		c.store(pk, pub, true)
		return nil, nil
	}
	return m, pub
}

// canStore reports whether a message is accepted, where err is the store's: not while it
// would have to be stored and nothing can be.
func (e *Engine) canStore(m *Message, r *route, err error) bool {
	now := e.generation.Load()
	if now.volatile { // whoever it is for is at another server
		return m.QoS == 0 && !(m.Retain && lasting(m.Topic))
	}
	if now.admits.Load() && err == nil {
		return true
	}
	if m.QoS > 0 && (now.isRestoring() || errors.Is(err, ErrUncertain)) { // for whom it must be stored is not known
		return false
	}
	return !(m.Retain && lasting(m.Topic)) && canQueue(m, r)
}

// canQueue reports whether no client is to get a message that would have to be
// stored for it.
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

// decline answers a message of QoS 2 that is not new, or one too many.
func (c *Conn) decline(pk *packet.Publish, found arrived) {
	if found == isRepeated {
		c.repeat(pk.PacketID)
		return
	}
	c.refuseExcess(pk)
}

// refuseExcess answers a message of QoS 2 whose packet identifier a quota forbids to
// note. Before MQTT 5 no answer says so, and the connection ends.
func (c *Conn) refuseExcess(pk *packet.Publish) {
	c.engine.meters.drop(DropQuota, 1)
	if c.version < 5 {
		c.endUnacknowledged()
		return
	}
	c.acknowledge(packet.TypePubrec, pk.PacketID, packet.ReasonQuotaExceeded)
}

// repeat answers a message of QoS 2 that is there already, after the answer to
// the first if that is still owed. It counts once.
func (c *Conn) repeat(id uint16) {
	c.mu.Lock()
	c.credit()
	c.mu.Unlock()
	if c.session.repeat(c, id) {
		return
	}
	c.acknowledge(packet.TypePubrec, id, packet.ReasonSuccess)
}

// refuseQuota answers a message of MQTT 5 that a quota forbids to keep.
func (c *Conn) refuseQuota(pk *packet.Publish) {
	kind := packet.TypePuback
	if pk.QoS == 2 {
		c.session.unreceive(pk.PacketID)
		kind = packet.TypePubrec
	}
	c.acknowledge(kind, pk.PacketID, packet.ReasonQuotaExceeded)
}

// refusedByQuota reports whether all who were to get the message were kept from it by a
// quota. It is asked by who makes the publication.
func (p *publication) refusedByQuota() bool {
	return p.over && !p.accepted && !p.storeBlocked() && p.ackRefs.Load() == 0
}

// refuse answers a message that cannot be stored: MQTT 5 is told so, and the
// connection ends in older versions. Where another server has it stored, no version
// gets an acknowledgement. storeErr is what the store reported when that was decided: it
// may report something else by now.
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

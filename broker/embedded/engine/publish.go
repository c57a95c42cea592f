package engine

import (
	"errors"
	"strings"

	"signalbox/broker/mqtt/packet"
	"signalbox/broker/mqtt/topics"
)

// controlPrefix begins the topics of control APIs. What is published to them is
// a request to the broker and is neither delivered nor retained.
const controlPrefix = "$CONTROL/"

// What a connection remembers of topics: how many, and how much room for all but
// the latest. With more it begins anew.
const (
	maxKnown     = 256
	maxKnownRoom = 64 << 10 // bytes

	recipientRoom = 88 // of a recipient, in bytes
)

// route is what is known of a topic that a connection publishes to.
type route struct {
	topic      string
	epoch      uint64 // of rights
	generation uint64 // of subscriptions and taps
	allowed    bool
	matches    *topics.Matches[*Session]
	to         []recipient
	peers      []bound // that are subscribed
	taps       *topics.Matches[*tapping]
}

// onPublish handles a message from the client.
func (c *Conn) onPublish(p []byte) error {
	pk := &c.in.publish
	if err := packet.DecodePublish(p, c.version, pk); err != nil {
		return err
	}
	if err := c.countIncoming(pk); err != nil {
		return err
	}
	r, err := c.routeOf(pk)
	if err != nil {
		return err
	}
	m := c.engine.meters
	m.publishesReceived.Add(1)
	m.payloadReceived.Add(int64(len(pk.Payload)))
	c.session.counts.published.Add(1)
	c.session.counts.publishedBytes.Add(int64(len(pk.Payload)))
	switch {
	case !r.allowed:
		c.deny(pk, r.topic)
	case strings.HasPrefix(r.topic, controlPrefix):
		c.request(pk, r.topic)
	default:
		c.forward(pk, r)
	}
	return nil
}

// countIncoming keeps the client to the Receive Maximum it was told
// [MQTT-3.3.4-9]. A message that is sent again counts once.
func (c *Conn) countIncoming(pk *packet.Publish) error {
	if pk.QoS == 0 {
		return nil
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.version >= 5 && c.quota >= int(c.engine.config.ReceiveMaximum) {
		return &packet.Error{Reason: packet.ReasonReceiveMaximumExceeded, Text: "receive maximum exceeded"}
	}
	c.quota++
	return nil
}

// routeOf finds what is known of the message's topic, or finds it out.
func (c *Conn) routeOf(pk *packet.Publish) (*route, error) {
	if pk.HasAlias {
		if err := c.alias(pk); err != nil {
			return nil, err
		}
	}
	r := c.in.known[string(pk.Topic)]
	if r == nil {
		topic := string(pk.Topic)
		if !c.engine.validDepth(topic) {
			return nil, &packet.Error{Reason: packet.ReasonTopicNameInvalid, Text: "topic too long or too deep"}
		}
		r = &route{topic: topic}
		c.engine.refresh(r, c.rights)
		c.remember(r)
		return r, nil
	}
	c.engine.refresh(r, c.rights)
	return r, nil
}

// remember keeps what is known of a topic.
func (c *Conn) remember(r *route) {
	if c.in.known == nil || len(c.in.known) >= maxKnown || c.in.room > maxKnownRoom {
		c.in.known, c.in.room = map[string]*route{}, 0
	}
	c.in.known[r.topic] = r
	c.in.room += len(r.topic) + recipientRoom*cap(r.to)
}

// alias puts the topic in that an alias stands for, or notes it
// [MQTT-3.3.2-7] [MQTT-3.3.2-12].
func (c *Conn) alias(pk *packet.Publish) error {
	if pk.Alias == 0 || pk.Alias > c.engine.config.TopicAliasMaximum {
		return &packet.Error{Reason: packet.ReasonTopicAliasInvalid, Text: "topic alias out of range"}
	}
	if len(pk.Topic) > 0 {
		if c.in.aliases == nil {
			c.in.aliases = map[uint16]string{}
		}
		c.in.aliases[pk.Alias] = string(pk.Topic)
		return nil
	}
	topic, ok := c.in.aliases[pk.Alias]
	if !ok {
		return &packet.Error{Reason: packet.ReasonProtocolError, Text: "topic alias that stands for nothing"}
	}
	pk.Topic = []byte(topic)
	return nil
}

// refresh brings a route up to date with subscriptions and rights. Epoch and
// generation are read first, so that it is out of date if they change now.
func (e *Engine) refresh(r *route, rights Rights) {
	epoch, generation := e.authority.Epoch(), e.index.Generation()+e.taps.Generation()
	if r.matches != nil && r.epoch == epoch && r.generation == generation {
		return
	}
	matches := e.index.Match(r.topic)
	r.taps = e.taps.Match(r.topic)
	if matches == r.matches && r.epoch == epoch {
		r.generation = generation // somebody else's subscriptions changed
		return
	}
	r.epoch, r.generation, r.matches = epoch, generation, matches
	r.allowed = rights == nil || rights.Allowed(Send, r.topic) && !reserved(r.topic)
	r.to, r.peers = r.to[:0], r.peers[:0]
	for i := range r.matches.Subscribers {
		switch s := &r.matches.Subscribers[i]; {
		case s.Who.peer != nil:
			r.peers = append(r.peers, bound{s.Who.peer, s.QoS})
		case s.Who.may(Receive, r.topic):
			r.to = append(r.to, newRecipient(s))
		}
	}
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

// request acknowledges a message to a control API and has it done, on this
// goroutine: the requester's connection waits for its answer, nobody else does.
func (c *Conn) request(pk *packet.Publish, topic string) {
	payload := append([]byte{}, pk.Payload...)
	switch pk.QoS {
	case 1:
		c.acknowledge(packet.TypePuback, pk.PacketID, packet.ReasonSuccess)
	case 2:
		found, _ := c.session.receive(pk.PacketID)
		if found == isTooMuch {
			c.refuseExcess(pk)
			return
		}
		c.acknowledge(packet.TypePubrec, pk.PacketID, packet.ReasonSuccess)
		if found == isRepeated {
			return
		}
	}
	c.complete()
	c.engine.control(&Request{conn: c, Topic: topic, Payload: payload})
}

// forward delivers a message and acknowledges it when what that promises is
// stored.
func (c *Conn) forward(pk *packet.Publish, r *route) {
	e := c.engine
	if under := e.publishing.begin(c.arrival); under != nil {
		defer under.end()
		e.refresh(r, c.rights)
	}
	pub := e.newPublication()
	if pk.QoS == 2 {
		found, store := c.session.receive(pk.PacketID)
		if found != isNew {
			c.decline(pk, found)
			pub.recycle()
			return
		}
		if store {
			pub.Received = append(pub.Received, IncomingRecord{SessionID: c.session.id, PacketID: pk.PacketID})
		}
		pub.incoming = pk.PacketID
	}
	m := c.message(pk, r.topic)
	trouble := e.store.Err()
	if c.isShutOut() || !e.canStore(m, r, trouble) { // the publication's era has not ended before
		c.refuse(pk, trouble)
		pub.recycle()
		return
	}
	pub.conn = c
	if c.version >= 5 && m.QoS > 0 && !e.mayRetain(m) {
		c.refuseQuota(pk)
		pub.recycle()
		return
	}
	if !e.passes(m, pub) {
		c.answer(pk, pub, true)
		return
	}
	e.watcher.Published(m)
	c.in.crossing = c.in.crossing || len(r.peers) > 0
	e.tap(m, r, pub)
	if !m.Retain {
		reached := e.deliver(m, r, c.session, pub, &c.in.touched)
		if c.version >= 5 && m.QoS > 0 && pub.reachedNobody() {
			c.refuseQuota(pk)
			pub.recycle()
			return
		}
		c.answer(pk, pub, reached)
		return
	}
	e.retained.mu.Lock()
	defer e.retained.mu.Unlock()
	e.retain(m, pub)
	e.refresh(r, c.rights)
	c.answer(pk, pub, e.deliver(m, r, c.session, pub, &c.in.touched))
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

// message makes the message out of the packet, whose bytes are the reader's.
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

// answer acknowledges a message that was delivered, when it is stored as far
// as it must be.
func (c *Conn) answer(pk *packet.Publish, pub *publication, reached bool) {
	kind, reason := packet.TypePuback, packet.ReasonSuccess
	if pk.QoS == 2 {
		kind = packet.TypePubrec
	}
	if !reached && c.version >= 5 && pk.QoS == 1 { // whom QoS 2 reaches is told by nobody
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
		pub.owes, pub.kind, pub.number = true, kind, c.owe(kind, pk.PacketID, reason)
	}
	c.engine.submit(pub)
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

// reachedNobody reports whether all who were to get the message were kept from it by a
// quota. It is asked by who makes the publication.
func (p *publication) reachedNobody() bool {
	return p.over && !p.accepted && !p.isHeld() && p.waits.Load() == 0
}

// refuse answers a message that cannot be stored: MQTT 5 is told so, and the
// connection ends in older versions. Where another server has it stored, no version
// gets an acknowledgement. The error is what the store said when that was decided: it
// may say something else by now.
func (c *Conn) refuse(pk *packet.Publish, trouble error) {
	c.engine.meters.drop(DropNotStored, 1)
	if pk.QoS == 2 {
		c.session.unreceive(pk.PacketID)
	}
	switch {
	case pk.QoS == 0:
		return
	case c.isShutOut(), errors.Is(trouble, ErrUncertain):
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

package engine

import (
	"slices"

	"signalbox/broker/mqtt/topics"
)

// Step 3 of a publish: route. It sets the retained message, finds the recipients, queues the
// message for their sessions, and forwards it to other nodes.

// route queues a message for all its recipients. It adds to pub what must be stored first,
// and to touched the connections that the caller must flush. It reports whether there is a
// subscriber.
func (e *Engine) route(m *Message, r *route, from *Session, pub *publication, touched *[]*Conn) (reached bool) {
	if len(r.peers) > 0 {
		e.stamp(m)
	}
	e.routeCounted(m, r, from, pub, touched)
	var chosen []sharedTarget
	for _, g := range r.matches.Groups {
		if c, taker := e.routeShared(g, m, anyMember, pub, touched); taker == byPeer {
			chosen = append(chosen, c)
		}
	}
	pub.accepted = pub.accepted || len(r.peers)+len(chosen) > 0
	if retained := m.Retain && isDurable(m.Topic); retained || len(r.peers)+len(chosen) > 0 {
		e.forward(m, retained, r.peers, chosen, pub)
	}
	return r.reached()
}

// reached reports whether the topic has a subscriber, except temporary ones at lost nodes.
func (r *route) reached() bool {
	for i := range r.matches.Subscribers {
		if r.matches.Subscribers[i].Who.absence() != ended {
			return true
		}
	}
	return slices.ContainsFunc(r.matches.Groups, func(g *topics.Group[*Session]) bool {
		return slices.ContainsFunc(g.Members, func(m topics.Member[*Session]) bool { return m.Who.absence() != ended })
	})
}

// routeCounted is routeLocal for a message that may come to other nodes as well.
func (e *Engine) routeCounted(m *Message, r *route, from *Session, pub *publication, touched *[]*Conn) {
	if m.Stamp == 0 || m.QoS == 0 {
		e.routeLocal(m, r, from, pub, touched)
		return
	}
	began := e.received.event()
	e.routeLocal(m, r, from, pub, touched)
	e.received.add(m.Stamp, began)
}

// routeLocal queues a message for this node's clients with a non-shared subscription.
func (e *Engine) routeLocal(m *Message, r *route, from *Session, pub *publication, touched *[]*Conn) {
	for i := range r.to {
		if o, ok := r.to[i].outgoing(m, from); ok {
			e.enqueue(r.to[i].session, o, pub, touched)
		}
	}
}

// outgoing returns the message for the recipient, and reports whether it gets one: with No
// Local it does not get its own.
func (r *recipient) outgoing(m *Message, from *Session) (outgoingMessage, bool) {
	if r.session != from {
		return outgoingMessage{message: m, extra: r.extra, qos: min(m.QoS, r.terms.QoS), retain: m.Retain && r.terms.RetainAsPublished}, true
	}
	return outgoingMessage{
		message: m, extra: newExtra(r.own.IDs, ""), qos: min(m.QoS, r.own.QoS), retain: m.Retain && r.own.RetainAsPublished,
	}, r.toOwn
}

// enqueue queues a message for one session.
func (e *Engine) enqueue(s *Session, o outgoingMessage, pub *publication, touched *[]*Conn) {
	a := s.accept(o)
	pub.over = pub.over || a.over
	pub.accepted = pub.accepted || a.seq != 0 || a.flush != nil
	if a.seq != 0 {
		pub.Enqueued = append(pub.Enqueued, s.queued(&o, a.seq))
		pub.sessions = append(pub.sessions, s)
	}
	if a.flush.touch() {
		*touched = append(*touched, a.flush)
	}
}

// taker is the kind of member that gets a message of a shared subscription.
type taker int

const (
	byNone   taker = iota // no suitable member
	byClient              // one of this node's clients
	byPeer                // a member at another node
)

// routeShared queues a message for one member of a shared subscription, or returns the peer
// to which it is to be forwarded.
func (e *Engine) routeShared(
	g *topics.Group[*Session], m *Message, fits func(*Session) bool, pub *publication, touched *[]*Conn,
) (sharedTarget, taker) {
	member, ok := choose(g, m, fits)
	switch {
	case !ok:
		return sharedTarget{}, byNone
	case member.Who.peer != nil:
		return sharedTarget{newPeerTarget(member.Who, member.QoS), g.Filter}, byPeer
	}
	e.enqueue(member.Who, outgoingFor(member, g.Filter, m), pub, touched)
	return sharedTarget{}, byClient
}

// routeSharedLocal queues a message for one of this node's members of a shared
// subscription. It returns false if there is none.
func (e *Engine) routeSharedLocal(g *topics.Group[*Session], m *Message, pub *publication, touched *[]*Conn) bool {
	member, ok := choose(g, m, isClient)
	if ok {
		e.enqueue(member.Who, outgoingFor(member, g.Filter, m), pub, touched)
	}
	return ok
}

// choose returns the member of a shared subscription that gets a message: one that is
// connected, or else one whose session outlives its connection [MQTT-4.8.2-4]; one at a lost
// node only if there is no other.
func choose(g *topics.Group[*Session], m *Message, fits func(*Session) bool) (found topics.Member[*Session], ok bool) {
	for member := range g.RoundRobin() {
		present, keeps := member.Who.presence()
		better := !ok || member.Who.absence() < found.Who.absence()
		if !present && (!keeps || min(m.QoS, member.QoS) == 0 || !better) || !fits(member.Who) || !member.Who.isAllowed(Receive, m.Topic) {
			continue
		}
		if present {
			return member, true
		}
		found, ok = member, true
	}
	return found, ok
}

// Filters for the members that choose may return.
func anyMember(*Session) bool  { return true }
func isClient(s *Session) bool { return s.peer == nil }

func outgoingFor(member topics.Member[*Session], share string, m *Message) outgoingMessage {
	var ids []uint32
	if member.ID != 0 {
		ids = []uint32{member.ID}
	}
	return outgoingMessage{
		message: m, extra: newExtra(ids, share), qos: min(m.QoS, member.QoS),
		retain: m.Retain && member.RetainAsPublished,
	}
}

// presence reports whether the session's client is connected, and whether the session
// outlives its connection.
func (s *Session) presence() (present, keeps bool) {
	if s.peer != nil {
		return s.peer.presence(s)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.conn != nil && !s.ended, s.keeps() && !s.ended
}

// retain sets the retained message of its topic. It is called before subscribers are looked
// up, so that a client that subscribes meanwhile gets the message one way or the other.
// retained.mu is held until the publication is submitted.
func (e *Engine) retain(m *Message, pub *publication) {
	if !isDurable(m.Topic) {
		e.retained.set(m)
		return
	}
	if !e.retained.fits(m) {
		e.refused(e.retained.over(m), m.Publisher, m.Username)
		return
	}
	switch {
	case e.retained.agreed:
		e.stamp(m)
		pub = e.ownPublication(pub)
		defer pub.store()
	case pub.storeBlocked(): // stored separately, to keep the order of retained messages
		m = m.clone()
		own := e.newPublication()
		own.parent, own.generation = pub, pub.generation
		pub.acquireStore()
		defer own.store()
		pub = own
	}
	m.ID = e.lastMessage.Add(1) // before it is visible
	e.retained.beginChange(pub, m.Topic, m)
	e.retained.set(m)
	record := RetainedRecord{Topic: m.Topic, Message: m}
	if len(m.Payload) == 0 {
		record.Message = nil
	}
	pub.Retained = append(pub.Retained, record)
}

package engine

import (
	"slices"

	"signalbox/broker/mqtt/topics"
)

// Step 3 of a publish: route. Who gets the message: the recipients of a topic, the
// retained message, the queues of sessions, and other nodes.

// route is what is known of a topic that a connection publishes to.
type route struct {
	topic           string
	epoch           uint64 // of rights
	indexGeneration uint64 // of subscriptions and taps
	allowed         bool
	matches         *topics.Matches[*Session]
	to              []recipient
	peers           []peerTarget // that are subscribed
	taps            *topics.Matches[*openTap]
}

// refresh brings a route up to date with subscriptions and rights. Epoch and
// generation are read first, so that it is out of date if they change now.
func (e *Engine) refresh(r *route, rights Rights) {
	epoch, generation := e.authority.Epoch(), e.index.Generation()+e.taps.Generation()
	if r.matches != nil && r.epoch == epoch && r.indexGeneration == generation {
		return
	}
	matches := e.index.Match(r.topic)
	r.taps = e.taps.Match(r.topic)
	if matches == r.matches && r.epoch == epoch {
		r.indexGeneration = generation // other clients' subscriptions changed
		return
	}
	r.epoch, r.indexGeneration, r.matches = epoch, generation, matches
	r.allowed = rights == nil || rights.Allowed(Send, r.topic) && !reserved(r.topic)
	r.to, r.peers = r.to[:0], r.peers[:0]
	for i := range r.matches.Subscribers {
		switch s := &r.matches.Subscribers[i]; {
		case s.Who.peer != nil:
			r.peers = append(r.peers, peerTarget{s.Who.peer, s.QoS})
		case s.Who.may(Receive, r.topic):
			r.to = append(r.to, newRecipient(s))
		}
	}
}

// recipient is a subscriber of a topic that may be sent its messages.
type recipient struct {
	session *Session
	terms   topics.Terms
	extra   *extra
	own     topics.Terms // for messages that it published itself
	toOwn   bool         // it gets those
}

func newRecipient(s *topics.Subscriber[*Session]) recipient {
	r := recipient{session: s.Who, terms: s.Terms, extra: newExtra(s.IDs, "")}
	r.own, r.toOwn = s.Own()
	return r
}

func newExtra(ids []uint32, share string) *extra {
	if len(ids) == 0 && share == "" {
		return nil
	}
	return &extra{ids: ids, share: share}
}

// outgoing is the message as the recipient asks for it. There is none for what it
// published itself and does not want back.
func (r *recipient) outgoing(m *Message, from *Session) (outgoingMessage, bool) {
	if r.session != from {
		return outgoingMessage{message: m, extra: r.extra, qos: min(m.QoS, r.terms.QoS), retain: m.Retain && r.terms.RetainAsPublished}, true
	}
	return outgoingMessage{
		message: m, extra: newExtra(r.own.IDs, ""), qos: min(m.QoS, r.own.QoS), retain: m.Retain && r.own.RetainAsPublished,
	}, r.toOwn
}

// route queues a message for everybody who is to get it, and notes in pub
// what must be stored first and in touched whose connections are to be flushed.
// It reports whether anybody is subscribed.
func (e *Engine) route(m *Message, r *route, from *Session, pub *publication, touched *[]*Conn) (reached bool) {
	if len(r.peers) > 0 {
		e.stamp(m)
	}
	e.routeLocal(m, r, from, pub, touched)
	var chosen []sharedTarget
	for _, g := range r.matches.Groups {
		if c, taker := e.routeShared(g, m, anyMember, pub, touched); taker == byPeer {
			chosen = append(chosen, c)
		}
	}
	pub.accepted = pub.accepted || len(r.peers)+len(chosen) > 0
	if retained := m.Retain && lasting(m.Topic); retained || len(r.peers)+len(chosen) > 0 {
		e.forward(m, retained, r.peers, chosen, pub)
	}
	return r.reached()
}

// reached reports whether anybody is subscribed to the topic, lost nodes apart.
func (r *route) reached() bool {
	for i := range r.matches.Subscribers {
		if !r.matches.Subscribers[i].Who.isLost() {
			return true
		}
	}
	return slices.ContainsFunc(r.matches.Groups, func(g *topics.Group[*Session]) bool {
		return slices.ContainsFunc(g.Members, func(m topics.Member[*Session]) bool { return !m.Who.isLost() })
	})
}

// routeLocal queues a message for this node's clients that are subscribed by
// themselves.
func (e *Engine) routeLocal(m *Message, r *route, from *Session, pub *publication, touched *[]*Conn) {
	for i := range r.to {
		if o, ok := r.to[i].outgoing(m, from); ok {
			e.enqueue(r.to[i].session, o, pub, touched)
		}
	}
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

// taker is who gets a message of a shared subscription.
type taker int

const (
	byNone   taker = iota // there is no member that fits
	byClient              // one of this node's clients
	byPeer                // a member at another node
)

// routeShared queues a message for one member of a shared subscription, or returns the
// peer where it is to go to one.
func (e *Engine) routeShared(
	g *topics.Group[*Session], m *Message, fits func(*Session) bool, pub *publication, touched *[]*Conn,
) (sharedTarget, taker) {
	member, ok := choose(g, m, fits)
	switch {
	case !ok:
		return sharedTarget{}, byNone
	case member.Who.peer != nil:
		return sharedTarget{peerTarget{member.Who.peer, member.QoS}, g.Filter}, byPeer
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

// choose returns the member of a shared subscription that gets a message: one that
// is connected, or else one whose session waits for it [MQTT-4.8.2-4]; one at a lost
// node, where the message is counted as lost, only if there is no other.
func choose(g *topics.Group[*Session], m *Message, fits func(*Session) bool) (found topics.Member[*Session], ok bool) {
	for member := range g.RoundRobin() {
		present, keeps := member.Who.presence()
		better := !ok || found.Who.isLost() && !member.Who.isLost()
		if !present && (!keeps || min(m.QoS, member.QoS) == 0 || !better) || !fits(member.Who) || !member.Who.may(Receive, m.Topic) {
			continue
		}
		if present {
			return member, true
		}
		found, ok = member, true
	}
	return found, ok
}

// Who may be chosen for a shared subscription.
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

// presence reports whether the session's client is there, and whether messages
// wait for it otherwise.
func (s *Session) presence() (present, keeps bool) {
	if s.peer != nil {
		return s.peer.presence(s)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.conn != nil && !s.ended, s.keeps() && !s.ended
}

// retain makes a message the retained one of its topic, before anybody is looked
// for who is subscribed to that: so a client that subscribes meanwhile gets it one way
// or the other. retained.mu is held until the store has it.
func (e *Engine) retain(m *Message, pub *publication) {
	if !lasting(m.Topic) {
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
	case pub.storeBlocked(): // what is retained keeps its order, and is stored by itself
		m = m.again()
		own := e.newPublication()
		own.parent, own.generation = pub, pub.generation
		pub.acquireStore()
		defer own.store()
		pub = own
	}
	m.ID = e.lastMessage.Add(1) // before anybody finds it
	e.retained.beginChange(pub, m.Topic, m)
	e.retained.set(m)
	record := RetainedRecord{Topic: m.Topic, Message: m}
	if len(m.Payload) == 0 {
		record.Message = nil
	}
	pub.Retained = append(pub.Retained, record)
}

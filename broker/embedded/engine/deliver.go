package engine

import (
	"errors"
	"slices"

	"signalbox/broker/mqtt/topics"
)

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

// offer is the message as the recipient asks for it. There is none for what it
// published itself and does not want back.
func (r *recipient) offer(m *Message, from *Session) (offer, bool) {
	if r.session != from {
		return offer{message: m, extra: r.extra, qos: min(m.QoS, r.terms.QoS), retain: m.Retain && r.terms.RetainAsPublished}, true
	}
	return offer{
		message: m, extra: newExtra(r.own.IDs, ""), qos: min(m.QoS, r.own.QoS), retain: m.Retain && r.own.RetainAsPublished,
	}, r.toOwn
}

// deliver queues a message for everybody who is to get it, and notes in pub
// what must be stored first and in touched whose connections are to be flushed.
// It tells whether anybody is subscribed.
func (e *Engine) deliver(m *Message, r *route, from *Session, pub *publication, touched *[]*Conn) (reached bool) {
	if len(r.peers) > 0 {
		e.stamp(m)
	}
	e.deliverOwn(m, r, from, pub, touched)
	var chosen []choice
	for _, g := range r.matches.Groups {
		if c, taker := e.handOne(g, m, anybody, pub, touched); taker == byPeer {
			chosen = append(chosen, c)
		}
	}
	pub.accepted = pub.accepted || len(r.peers)+len(chosen) > 0
	if retained := m.Retain && lasting(m.Topic); retained || len(r.peers)+len(chosen) > 0 {
		e.cross(m, retained, r.peers, chosen, pub)
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

// deliverOwn queues a message for this node's clients that are subscribed by
// themselves.
func (e *Engine) deliverOwn(m *Message, r *route, from *Session, pub *publication, touched *[]*Conn) {
	for i := range r.to {
		if o, ok := r.to[i].offer(m, from); ok {
			e.hand(r.to[i].session, o, pub, touched)
		}
	}
}

// hand queues a message for one session.
func (e *Engine) hand(s *Session, o offer, pub *publication, touched *[]*Conn) {
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

// handOne queues a message for one member of a shared subscription, or returns the
// peer where it is to go to one.
func (e *Engine) handOne(
	g *topics.Group[*Session], m *Message, fits func(*Session) bool, pub *publication, touched *[]*Conn,
) (choice, taker) {
	member, ok := choose(g, m, fits)
	switch {
	case !ok:
		return choice{}, byNone
	case member.Who.peer != nil:
		return choice{bound{member.Who.peer, member.QoS}, g.Filter}, byPeer
	}
	e.hand(member.Who, offerOf(member, g.Filter, m), pub, touched)
	return choice{}, byClient
}

// handOwn queues a message for one of this node's members of a shared
// subscription. It answers false if there is none.
func (e *Engine) handOwn(g *topics.Group[*Session], m *Message, pub *publication, touched *[]*Conn) bool {
	member, ok := choose(g, m, isClient)
	if ok {
		e.hand(member.Who, offerOf(member, g.Filter, m), pub, touched)
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
func anybody(*Session) bool    { return true }
func isClient(s *Session) bool { return s.peer == nil }

func offerOf(member topics.Member[*Session], share string, m *Message) offer {
	var ids []uint32
	if member.ID != 0 {
		ids = []uint32{member.ID}
	}
	return offer{
		message: m, extra: newExtra(ids, share), qos: min(m.QoS, member.QoS),
		retain: m.Retain && member.RetainAsPublished,
	}
}

// presence tells whether the session's client is there, and whether messages
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
// for who is subscribed to that: so whoever subscribes meanwhile gets it one way
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
		defer e.submit(pub)
	case pub.isHeld(): // what is retained keeps its order, and is stored by itself
		m = m.again()
		own := e.newPublication()
		own.of, own.era = pub, pub.era
		pub.hold()
		defer e.submit(own)
		pub = own
	}
	m.ID = e.lastMessage.Add(1) // before anybody finds it
	e.retained.beginFor(pub, m.Topic, m)
	e.retained.set(m)
	record := RetainedRecord{Topic: m.Topic, Message: m}
	if len(m.Payload) == 0 {
		record.Message = nil
	}
	pub.Retained = append(pub.Retained, record)
}

// submit hands a publication to the store, once nobody holds it any more. It
// belongs to the store and to those who hold it from then on.
func (e *Engine) submit(pub *publication) { pub.part(nil) }

// keep hands the changes of a publication to the store.
func (e *Engine) keep(pub *publication) {
	if m := pub.message(); m != nil {
		if m.ID == 0 {
			m.ID = e.lastMessage.Add(1)
		}
		pub.Messages = append(pub.Messages, m)
	}
	if s := pub.willOf; s != nil {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.put(&pub.Changes)
		return
	}
	pub.era.submit(&pub.Changes)
}

// submitAny is submit for a publication that nothing may have to wait for. It
// tells whether something has.
func (e *Engine) submitAny(pub *publication) bool {
	if pub.isComplete() {
		pub.recycle()
		return false
	}
	e.submit(pub)
	return true
}

// message gives the message to be stored, nil if nothing refers to one.
func (p *publication) message() *Message {
	if len(p.Enqueued) > 0 {
		return p.Enqueued[0].Message
	}
	if len(p.Retained) > 0 {
		return p.Retained[0].Message
	}
	return nil
}

// canStore reports whether a message is accepted, where err is what the store says of
// itself: not while it would have to be stored and nothing can be.
func (e *Engine) canStore(m *Message, r *route, err error) bool {
	now := e.era.Load()
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

// canQueue tells whether no client is to get a message that would have to be
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

func (s *Session) isStored() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.stored
}

// Publish delivers a message of the broker's own, or of an administrator. Where
// something of it must be stored it waits for that.
func (e *Engine) Publish(m *Message) error {
	pub := e.newPublication()
	if pub.era.isRestoring() && (m.QoS > 0 || m.Retain) {
		pub.recycle()
		return errRestoring
	}
	done := make(chan error, 1)
	pub.done = done
	if e.publish(m, nil, pub) {
		return <-done
	}
	return nil
}

// errRestoring refuses a message while it is not known for whom it is.
var errRestoring = errors.New("the broker is reading its sessions at the moment")

// publish delivers a message that came over no connection. It tells whether
// something of it is being stored.
func (e *Engine) publish(m *Message, from *Session, pub *publication) bool {
	r := &route{topic: m.Topic}
	var touched []*Conn
	e.watcher.Published(m)
	stores := e.publishRetaining(m, r, from, pub, &touched)
	for _, c := range touched {
		c.flush()
	}
	return stores
}

// publishRetaining retains a message if it is to be, delivers it and hands over
// what is to be stored. It tells whether that is anything.
func (e *Engine) publishRetaining(m *Message, r *route, from *Session, pub *publication, touched *[]*Conn) bool {
	if under := e.publishing.begin(0); under != nil {
		defer under.end()
	}
	if m.Retain {
		e.retained.mu.Lock()
		defer e.retained.mu.Unlock()
		e.retain(m, pub)
	}
	e.refresh(r, nil)
	e.tap(m, r, pub)
	e.deliver(m, r, from, pub, touched)
	return e.submitAny(pub)
}

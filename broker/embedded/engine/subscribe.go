package engine

import (
	"errors"

	"signalbox/broker/mqtt/packet"
	"signalbox/broker/mqtt/topics"
)

// grant is a subscription that was granted, with what decides about retained
// messages.
type grant struct {
	filter   string
	options  topics.Options
	replaced bool
	shared   bool
	account  *account // nil for one that is not new
	reserved int64    // of its quota
}

// onSubscribe handles SUBSCRIBE: the subscriptions are stored, then in force,
// then known to other nodes, then acknowledged; retained messages follow.
func (c *Conn) onSubscribe(p []byte) error {
	pk, err := packet.DecodeSubscribe(p, c.version)
	if err != nil {
		return err
	}
	codes := make([]byte, len(pk.Filters))
	if !c.fits(len(packet.AppendSuback(nil, c.version, pk.PacketID, codes))) {
		return errAnswerTooLarge
	}
	c.complete() // the store is waited for below, and nobody else for that
	var grants []grant
	added := map[string]struct{}{}
	for i, f := range pk.Filters {
		g, code := c.decide(f, pk.ID, added)
		codes[i] = code
		if code < packet.ReasonUnspecified {
			grants = append(grants, g)
		}
	}
	err = c.engine.storeSubscriptions(c.session, grants)
	if c.withholdsAnswer(err) {
		for _, g := range grants {
			g.unreserve()
		}
		return err
	}
	if err != nil && !errors.Is(err, errGenerationOver) { // else it holds for the connection
		for i := range codes {
			codes[i] = c.failure(packet.ReasonQuotaExceeded)
		}
		for _, g := range grants {
			g.unreserve()
		}
		grants = nil
	}
	for i := range grants {
		grants[i].replaced = c.engine.subscribe(c.session, grants[i])
	}
	if len(grants) > 0 {
		c.engine.awaitRoutes()
	}
	c.send(packet.AppendSuback(nil, c.version, pk.PacketID, codes))
	for _, g := range grants {
		c.engine.sendRetained(c.session, g)
	}
	return nil
}

// decide reports whether a subscription is granted, and the code of its SUBACK.
// The new ones of the packet are gathered in added.
func (c *Conn) decide(f packet.Filter, id uint32, added map[string]struct{}) (grant, byte) {
	g := grant{filter: f.Filter, options: optionsOf(f.Options, id)}
	_, _, g.shared = packet.SplitShared(f.Filter)
	if c.bridge {
		g.options.NoLocal, g.options.RetainAsPublished = !g.shared, true
	}
	switch {
	case !packet.ValidFilter(f.Filter), !c.engine.validDepth(f.Filter):
		return g, c.failure(packet.ReasonTopicFilterInvalid)
	case !c.rights.Allowed(Subscribe, f.Filter):
		c.engine.watcher.Denied(c.event(), Subscribe, f.Filter)
		return g, c.failure(packet.ReasonNotAuthorized)
	case !c.session.reserve(&g, added):
		return g, c.failure(packet.ReasonQuotaExceeded)
	}
	return g, g.options.QoS
}

// failure is a reason of SUBACK in the words of the client's version
// [MQTT-3.9.3-1 of 3.1.1].
func (c *Conn) failure(reason byte) byte {
	if c.version < 5 {
		return packet.ReasonUnspecified
	}
	return reason
}

// optionsOf reads the options byte of SUBSCRIBE [MQTT-3.8.3.1].
func optionsOf(b byte, id uint32) topics.Options {
	return topics.Options{
		QoS: b & 3, NoLocal: b&4 != 0, RetainAsPublished: b&8 != 0, RetainHandling: b >> 4 & 3, ID: id,
	}
}

// optionsByte is the options byte of SUBSCRIBE.
func optionsByte(o topics.Options) byte {
	b := o.QoS | o.RetainHandling<<4
	if o.NoLocal {
		b |= 4
	}
	if o.RetainAsPublished {
		b |= 8
	}
	return b
}

// storeSubscriptions stores what is about to be granted to a session that is
// kept.
func (e *Engine) storeSubscriptions(s *Session, grants []grant) error {
	if len(grants) == 0 || !s.isStored() {
		return nil
	}
	changes := &Changes{}
	for _, g := range grants {
		changes.Subscribed = append(changes.Subscribed, SubscriptionRecord{
			SessionID: s.id, Filter: g.filter, Options: optionsByte(g.options), ID: g.options.ID,
		})
	}
	if err := s.commit(changes); err != nil && s.isStored() {
		return err
	}
	return nil
}

// subscribe puts a subscription in force.
func (e *Engine) subscribe(s *Session, g grant) (replaced bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	g.unreserve()
	if s.ended {
		s.disown(g.filter)
		return true
	}
	if s.subscribed.options == nil {
		s.subscribed.options = map[string]topics.Options{}
	}
	before, replaced := s.subscribed.options[g.filter]
	s.subscribed.options[g.filter] = g.options
	s.enlist(g.filter, g.options)
	s.announceJoined(g.filter, replaced, before)
	if !replaced {
		e.meters.subscriptions.Add(1)
		s.out.account.add(QuotaSubscriptions, subscriptionCost(g.filter))
	}
	return replaced
}

// disown takes a subscription out of the store that got there after the end of
// its session. mu is held.
func (s *Session) disown(filter string) {
	if s.stored {
		gone := []SubscriptionRecord{{SessionID: s.id, Filter: filter}}
		s.generation.submit(&Changes{Owed: true, Unsubscribed: gone})
	}
}

// sendRetained queues the retained messages of a new subscription
// [MQTT-3.3.1-9] [MQTT-3.3.1-10] [MQTT-3.3.1-11].
func (e *Engine) sendRetained(s *Session, g grant) {
	if g.shared || g.options.RetainHandling == 2 || g.options.RetainHandling == 1 && g.replaced {
		return
	}
	var ids []uint32
	if g.options.ID != 0 {
		ids = []uint32{g.options.ID}
	}
	o := outgoingMessage{extra: newExtra(ids, ""), retain: true, unbounded: s.accepts()}
	now, n := e.now(), 0
	for topic, m := range e.retained.index.Match(g.filter) {
		if m.expired(now) || !s.may(Receive, topic) || g.options.NoLocal && m.Publisher == s.clientID {
			continue
		}
		o.message, o.qos = m, min(m.QoS, g.options.QoS)
		c := e.handRetained(s, o)
		if n++; n%flushRetained == 0 && c != nil {
			c.flush()
		}
	}
	if c := s.connection(); c != nil {
		c.flush()
	}
}

// flushRetained is after how many retained messages what is queued is written.
const flushRetained = 512

// accepts reports whether there is room in the session's queue. If so, all the
// retained messages of a subscription may enter it: they take no memory of
// their own but a few bytes each.
func (s *Session) accepts() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.out.waiting() < s.engine.config.MaxQueuedMessages
}

// connection is the one that has the session, nil while the client is away.
func (s *Session) connection() *Conn {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.conn
}

// handRetained queues one retained message. It returns the connection to be
// flushed.
func (e *Engine) handRetained(s *Session, o outgoingMessage) *Conn {
	a := s.accept(o)
	if a.seq != 0 {
		pub := e.newPublication()
		pub.Enqueued, pub.sessions = append(pub.Enqueued, s.queued(&o, a.seq)), append(pub.sessions, s)
		pub.generation.submit(&pub.Changes)
	}
	return a.flush
}

// onUnsubscribe handles UNSUBSCRIBE.
func (c *Conn) onUnsubscribe(p []byte) error {
	pk, err := packet.DecodeUnsubscribe(p, c.version)
	if err != nil {
		return err
	}
	codes := make([]byte, len(pk.Filters))
	if !c.fits(len(packet.AppendUnsuback(nil, c.version, pk.PacketID, codes))) {
		return errAnswerTooLarge
	}
	c.complete() // as in onSubscribe
	changes := &Changes{Owed: true}
	for i, filter := range pk.Filters {
		codes[i] = c.unsubscribe(filter)
		if codes[i] == packet.ReasonSuccess {
			changes.Unsubscribed = append(changes.Unsubscribed, SubscriptionRecord{SessionID: c.session.id, Filter: filter})
		}
	}
	if len(changes.Unsubscribed) > 0 && c.session.isStored() {
		if err := c.session.commit(changes); c.withholdsAnswer(err) {
			return err
		}
	}
	c.send(packet.AppendUnsuback(nil, c.version, pk.PacketID, codes))
	return nil
}

// unsubscribe decides about one filter and returns its code.
func (c *Conn) unsubscribe(filter string) byte {
	switch {
	case !packet.ValidFilter(filter):
		return packet.ReasonTopicFilterInvalid
	case !c.rights.Allowed(Unsubscribe, filter):
		c.engine.watcher.Denied(c.event(), Unsubscribe, filter)
		return packet.ReasonNotAuthorized
	case !c.engine.unsubscribe(c.session, filter):
		return packet.ReasonNoSubscriptionExisted
	}
	return packet.ReasonSuccess
}

// unsubscribe takes a subscription out of force and reports whether there was one.
func (e *Engine) unsubscribe(s *Session, filter string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	before, known := s.subscribed.options[filter]
	delete(s.subscribed.options, filter)
	if known {
		s.delist(filter)
		s.announceLeft(filter, before)
		e.meters.subscriptions.Add(-1)
		s.out.account.add(QuotaSubscriptions, -subscriptionCost(filter))
	}
	return known
}

// enlist has messages reach the session by a subscription. mu is held.
func (s *Session) enlist(filter string, o topics.Options) { s.engine.index.Subscribe(filter, s, o) }

// delist ends what enlist began. mu is held, or the session has ended.
func (s *Session) delist(filter string) { s.engine.index.Unsubscribe(filter, s) }

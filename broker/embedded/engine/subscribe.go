package engine

import (
	"errors"

	"signalbox/broker/mqtt/packet"
	"signalbox/broker/mqtt/topics"
)

// grant is a granted subscription, with what decides about retained messages.
type grant struct {
	filter   string
	options  topics.Options
	replaced bool
	shared   bool
	account  *account // nil if the subscription is not new
	reserved int64    // of its quota
}

// onSubscribe handles SUBSCRIBE: the subscriptions are stored, then added to the index, then
// announced to other nodes, then acknowledged; retained messages follow.
func (c *Conn) onSubscribe(p []byte) error {
	pk, err := packet.DecodeSubscribe(p, c.version)
	if err != nil {
		return err
	}
	codes := make([]byte, len(pk.Filters))
	if !c.fits(len(packet.AppendSuback(nil, c.version, pk.PacketID, codes))) {
		return errAnswerTooLarge
	}
	c.complete() // because the store is waited for below
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
	if err != nil && !errors.Is(err, errGenerationOver) { // else granted until the end of the connection
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

// decide returns a subscription and its code in SUBACK, which reports whether it is granted.
// added has the new subscriptions of the packet.
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

// failure returns a reason code of SUBACK for the client's version [MQTT-3.9.3-1 of 3.1.1].
func (c *Conn) failure(reason byte) byte {
	if c.version < 5 {
		return packet.ReasonUnspecified
	}
	return reason
}

// optionsOf decodes the options byte of SUBSCRIBE [MQTT-3.8.3.1].
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

// subscribe adds a subscription to the index, and reports whether it replaced one.
func (e *Engine) subscribe(s *Session, g grant) (replaced bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	g.unreserve()
	if s.ended {
		s.deleteSubscription(g.filter)
		return true
	}
	if s.subscribed.options == nil {
		s.subscribed.options = map[string]topics.Options{}
	}
	before, replaced := s.subscribed.options[g.filter]
	s.subscribed.options[g.filter] = g.options
	s.addToIndex(g.filter, g.options)
	s.announceJoined(g.filter, replaced, before)
	if !replaced {
		e.meters.subscriptions.Add(1)
		s.out.account.add(QuotaSubscriptions, subscriptionCost(g.filter))
	}
	return replaced
}

// deleteSubscription deletes a subscription from the store that was stored after the end of its session.
// mu is held.
func (s *Session) deleteSubscription(filter string) {
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
	o := outgoingMessage{extra: newExtra(ids, ""), retain: true, unbounded: s.accepts(), earlier: true}
	now, n := e.now(), 0
	for topic, m := range e.retained.index.Match(g.filter) {
		if m.expired(now) || !s.isAllowed(Receive, topic) || g.options.NoLocal && m.Publisher == s.clientID {
			continue
		}
		o.message, o.qos = m, min(m.QoS, g.options.QoS)
		c := e.queueRetained(s, o)
		if n++; n%flushRetained == 0 && c != nil {
			c.flush()
		}
	}
	if c := s.connection(); c != nil {
		c.flush()
	}
}

// flushRetained is how many retained messages are queued between two flushes.
const flushRetained = 512

// accepts reports whether the session's queue is not full. If so, all retained messages of a
// subscription may be queued, because they share memory with the retained ones.
func (s *Session) accepts() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.out.waiting() < s.engine.config.MaxQueuedMessages
}

// connection returns the connection of the session, nil while the client is away.
func (s *Session) connection() *Conn {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.conn
}

// queueRetained queues one retained message. It returns the connection to be flushed.
func (e *Engine) queueRetained(s *Session, o outgoingMessage) *Conn {
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

// unsubscribe removes a subscription and reports whether there was one.
func (e *Engine) unsubscribe(s *Session, filter string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	before, known := s.subscribed.options[filter]
	delete(s.subscribed.options, filter)
	if known {
		s.removeFromIndex(filter)
		s.announceLeft(filter, before)
		e.meters.subscriptions.Add(-1)
		s.out.account.add(QuotaSubscriptions, -subscriptionCost(filter))
	}
	return known
}

// addToIndex adds a subscription to the index. mu is held.
func (s *Session) addToIndex(filter string, o topics.Options) { s.engine.index.Subscribe(filter, s, o) }

// removeFromIndex removes a subscription from the index. mu is held, or the session has ended.
func (s *Session) removeFromIndex(filter string) { s.engine.index.Unsubscribe(filter, s) }

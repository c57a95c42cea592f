package engine

import (
	"slices"

	"signalbox/broker/mqtt/packet"
	"signalbox/broker/mqtt/topics"
)

// finish releases everything of a connection. Its session stays if it outlives the
// connection.
func (c *Conn) finish() {
	c.close(packet.ReasonUnspecified)
	if c.socket.shared != nil {
		c.engine.silent.forget(c)
		c.socket.shared.Close()
		c.socket.Close() //nolint:errcheck // nothing left to do with it
	}
	c.awaitWriter()
	if c.socket.Polled != nil {
		c.engine.silent.forget(c)
		c.socket.Polled.Close()
	}
	c.mu.Lock()
	if c.graceTimer != nil {
		c.graceTimer.Stop()
	}
	reason := c.reason
	c.mu.Unlock()
	c.in.reader.take(c.in.reader.n)
	if c.session == nil {
		if c.rights != nil {
			c.rights.Release()
		}
		return
	}
	if c.established.Load() {
		c.engine.meters.leave()
		c.engine.watcher.Disconnected(c.event(), reason)
	}
	c.leaveSession()
}

// leaveSession detaches the connection from its session, and ends the session unless it
// outlives the connection.
func (c *Conn) leaveSession() {
	s, e := c.session, c.engine
	s.mu.Lock()
	s.conn, s.client.goneAt = nil, e.now()
	s.announcePresence()
	s.client.lastGone = s.client.goneAt
	if c.evicted.Load() || !c.established.Load() || c.isRedirected() {
		s.dropWill()
	}
	s.out.dropQoS0()
	s.out.rewind()
	s.sending.aliases = aliases{}
	if !s.keeps() {
		ended := s.conclude()
		s.mu.Unlock()
		ended.complete()
		return
	}
	if s.generation.isOver() { // the session will be discarded
		s.mu.Unlock()
		return
	}
	s.evictAll()
	s.scheduleWill()
	s.put(&Changes{Owed: true})
	moving := s.reassignable(false)
	s.mu.Unlock()
	e.runDue(s)
	if c.evicted.Load() {
		e.dropForbidden(s)
	}
	e.reassign(s, moving)
}

// scheduleWill sets when the Will of a session is due, after its client has disconnected
// [MQTT-3.1.3-9]. mu is held.
func (s *Session) scheduleWill() {
	if s.will.record != nil {
		s.will.dueAt = s.client.goneAt + 1000*int64(min(s.will.record.Delay, s.expiry))
	}
}

// end ends a session whose client is away, and publishes its Will. It returns false if the
// client is connected or the session has ended already.
func (e *Engine) end(s *Session) bool {
	s.mu.Lock()
	if s.conn != nil {
		s.mu.Unlock()
		return false
	}
	ended := s.conclude()
	s.mu.Unlock()
	return ended.complete()
}

// ending is what remains to be done for a session that has ended.
type ending struct {
	session *Session // nil for none
	will    *WillRecord
	stored  bool
	rights  Rights
	filters map[string]topics.Options
	moving  []QueueRecord
}

// conclude ends the session, and frees its client id for another one, in one step under mu:
// otherwise the client could return in between to a session that is about to end. mu is
// held. The caller calls complete or discard of the result once it has released mu.
//
// What the store has of a generation that is over may belong to another server by now. So
// the Will and the messages of such a session are left alone.
func (s *Session) conclude() ending {
	if s.ended {
		return ending{}
	}
	s.ended = true
	s.engine.forgetSession(s)
	s.out.account.add(QuotaSessions, -1)
	for filter, o := range s.subscribed.options {
		s.announceLeft(filter, o)
		s.out.account.add(QuotaSubscriptions, -subscriptionCost(filter))
	}
	if s.stored && s.generation.isOver() {
		s.stored, s.will.record, s.out.shares = false, nil, false
	}
	if s.will.stored && s.generation.isOver() {
		s.will.stored, s.will.record = false, nil
	}
	d := ending{session: s, will: s.will.record, stored: s.stored || s.will.stored, rights: s.rights, filters: s.subscribed.options, moving: s.reassignable(true)}
	s.subscribed.options, s.will.record = nil, nil
	s.recharge()
	return d
}

// forgetSession removes a session from the list of sessions.
func (e *Engine) forgetSession(s *Session) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.sessions[s.clientID] == s {
		delete(e.sessions, s.clientID)
		e.ordered.Delete(s)
	}
}

// complete does what the end of a session requires. It reports whether a session ended.
func (d ending) complete() bool {
	s := d.session
	if s == nil {
		return false
	}
	d.unsubscribe()
	s.engine.reassign(s, d.moving)
	s.engine.publishLast(d)
	d.release()
	return true
}

// discard releases what is in memory of the session, without a Will and without changes of
// the store.
func (d ending) discard() {
	if d.session != nil {
		d.unsubscribe()
		d.release()
	}
}

// unsubscribe removes all subscriptions of the session from the index.
func (d ending) unsubscribe() {
	e := d.session.engine
	for filter := range d.filters {
		d.session.removeFromIndex(filter)
	}
	e.meters.subscriptions.Add(-int64(len(d.filters)))
	e.scheduled.remove(d.session)
}

// release releases the rights, the queue and the account of the session.
func (d ending) release() {
	d.rights.Release()
	s := d.session
	s.mu.Lock()
	defer s.mu.Unlock()
	s.out.clear()
	s.out.account.release()
	s.out.account = nil
}

// publishLast publishes the Will of a session that has ended and deletes the session from
// the store, atomically.
func (e *Engine) publishLast(d ending) {
	pub := e.newPublication()
	if d.stored {
		pub.EndedSessions = append(pub.EndedSessions, d.session.id)
	}
	if d.will != nil {
		e.publishWill(d.session, d.will, d.rights, pub)
		return
	}
	pub.Owed = true
	pub.storeAny()
}

// publishWill publishes a Will if its client may publish it now. pub already has the change
// that removes the Will from the store. It is committed together with the message, so that
// the Will is published once. The publication is owed: there is no client to refuse it to.
func (e *Engine) publishWill(s *Session, w *WillRecord, rights Rights, pub *publication) {
	pub.Owed = true
	if reserved(w.Topic) || !rights.Allowed(Send, w.Topic) {
		e.watcher.Denied(s.event(), Send, w.Topic)
		pub.storeAny()
		return
	}
	m := &Message{
		Topic: w.Topic, Payload: w.Payload, Properties: w.Properties, QoS: w.QoS, Retain: w.Retain,
		CreatedAt: e.now(), Publisher: s.clientID, Username: s.username,
	}
	if w.HasExpiry {
		m.SetExpiry(w.Expiry)
	}
	e.publishAlone(m, s, pub)
}

// reassignable returns the messages that another member of their shared subscription can get:
// those that were not sent and, if the session ends, those of QoS 1 that were sent and not
// acknowledged [MQTT-4.8.2-5]. mu is held.
func (s *Session) reassignable(ended bool) (moving []QueueRecord) {
	if !s.out.shares {
		return nil
	}
	for e := range s.out.all() {
		if e.extra == nil || e.extra.share == "" || e.state&released != 0 {
			continue
		}
		if e.state&sent != 0 && (!ended || e.qos == 2) {
			continue
		}
		r := e.record(s.id)
		r.Stub = e.stub()
		moving = append(moving, r)
	}
	return moving
}

// reassign moves messages to other members of their shared subscriptions. Without another
// member they stay where they are.
func (e *Engine) reassign(from *Session, moving []QueueRecord) {
	for moving = e.withOtherMembers(from, moving); len(moving) > 0; {
		n := portion(moving)
		part, err := from.complete(moving[:n])
		if err != nil {
			e.config.Log.Error("messages of a shared subscription could not be read, and no other client gets them",
				"clientid", from.clientID, "messages", len(moving), "error", err)
			return
		}
		for i, r := range part {
			for _, g := range e.index.Match(r.Message.Topic).Groups {
				if g.Filter == r.Share {
					e.reassignOne(from, r, g)
				}
			}
			part[i] = QueueRecord{} // releases the message while the others are read
		}
		moving = moving[n:]
	}
}

// withOtherMembers returns the messages of shared subscriptions with another member that is
// connected. The others stay, and need not be read.
func (e *Engine) withOtherMembers(from *Session, moving []QueueRecord) []QueueRecord {
	wanted := map[string]bool{}
	return slices.DeleteFunc(moving, func(r QueueRecord) bool {
		if _, known := wanted[r.Share]; !known {
			wanted[r.Share] = slices.ContainsFunc(e.index.Members(r.Share), func(m topics.Member[*Session]) bool {
				present, _ := m.Who.presence()
				return present && m.Who != from
			})
		}
		return !wanted[r.Share]
	})
}

func (e *Engine) reassignOne(from *Session, r QueueRecord, g *topics.Group[*Session]) {
	for member := range g.RoundRobin() {
		present, _ := member.Who.presence()
		if !present || member.Who == from || !member.Who.isAllowed(Receive, r.Message.Topic) {
			continue
		}
		if !from.dequeueUnsent(r.Seq) {
			return
		}
		if !isClient(member.Who) {
			e.forwardQueued(from, r, member)
			return
		}
		pub := e.newPublication()
		pub.Owed = true
		if from.isStored() {
			pub.Dequeued = append(pub.Dequeued, r)
		}
		var touched []*Conn
		e.enqueue(member.Who, outgoingFor(member, g.Filter, r.Message.clone()), pub, &touched)
		pub.store()
		for _, c := range touched {
			c.flush()
		}
		return
	}
}

// dequeueUnsent removes a message from a queue, unless its client has connected meanwhile. It
// reports whether it did.
func (s *Session) dequeueUnsent(seq uint64) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	e := s.out.get(seq)
	if e == nil || s.conn != nil || e.state&committed == 0 {
		return false
	}
	s.out.finish(e)
	return true
}

// dropForbidden removes the subscriptions that a session may no longer have.
func (e *Engine) dropForbidden(s *Session) {
	s.mu.Lock()
	var filters []string
	for filter := range s.subscribed.options {
		if !s.rights.Allowed(Subscribe, filter) {
			filters = append(filters, filter)
		}
	}
	s.mu.Unlock()
	changes := &Changes{Owed: true}
	for _, filter := range filters {
		if e.unsubscribe(s, filter) {
			changes.Unsubscribed = append(changes.Unsubscribed, SubscriptionRecord{SessionID: s.id, Filter: filter})
		}
	}
	if s.isStored() && len(changes.Unsubscribed) > 0 {
		s.generation.submit(changes)
	}
}

// event returns the connection's client.
func (c *Conn) event() ClientEvent {
	return ClientEvent{ClientID: c.clientID, Username: c.username, Address: c.socket.Address}
}

func (s *Session) event() ClientEvent {
	return ClientEvent{ClientID: s.clientID, Username: s.username, Address: s.client.address}
}

package engine

import (
	"signalbox/broker/embedded/engine/topics"
	"signalbox/broker/embedded/engine/wire"
)

// finish leaves nothing of a connection behind but the session that waits for
// the client, if it is one that waits.
func (c *Conn) finish() {
	c.close(wire.ReasonUnspecified)
	c.mu.Lock()
	if c.hurry != nil {
		c.hurry.Stop()
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

// leaveSession ends the connection's hold on its session, and the session with
// it unless it is kept.
func (c *Conn) leaveSession() {
	s, e := c.session, c.engine
	s.mu.Lock()
	if s.conn != c {
		s.mu.Unlock()
		return
	}
	s.conn, s.goneAt = nil, e.now()
	s.lastGone = s.goneAt
	if c.cut.Load() || !c.established.Load() {
		s.will = nil
	}
	s.out.dropPassing()
	s.out.rewind()
	if !s.keeps() {
		s.mu.Unlock()
		e.end(s)
		return
	}
	s.settleAway()
	changes := &Changes{Owed: true, PutSessions: []SessionRecord{s.record()}}
	moving := s.handBack(false)
	s.mu.Unlock()
	e.store.Submit(changes)
	e.schedule(s)
	if c.cut.Load() {
		e.dropForbidden(s)
	}
	e.handOver(s, moving)
}

// settleAway reckons when the Will of a session is due whose client has gone
// [MQTT-3.1.3-9]. mu is held.
func (s *Session) settleAway() {
	if s.will != nil {
		s.willDueAt = s.goneAt + 1000*int64(min(s.will.Delay, s.expiry))
	}
}

// end ends a session: nothing of it is left, and its Will is published.
func (e *Engine) end(s *Session) {
	s.mu.Lock()
	if s.ended {
		s.mu.Unlock()
		return
	}
	s.ended = true
	will, stored, rights := s.will, s.stored, s.rights
	filters := s.subscribed
	moving := s.handBack(true)
	s.subscribed, s.will = nil, nil
	s.mu.Unlock()

	for filter := range filters {
		e.index.Unsubscribe(filter, s)
	}
	e.meters.subscriptions.Add(-int64(len(filters)))
	e.mu.Lock()
	if e.sessions[s.clientID] == s {
		delete(e.sessions, s.clientID)
		e.ordered.Delete(s)
	}
	e.mu.Unlock()
	if will != nil {
		e.publishWill(s, will, rights)
	}
	e.handOver(s, moving)
	if stored {
		e.store.Submit(&Changes{Owed: true, EndedSessions: []uint64{s.id}})
	}
	rights.Release()
}

// publishWill publishes a Will if its client may publish it now.
func (e *Engine) publishWill(s *Session, w *WillRecord, rights Rights) {
	if reserved(w.Topic) || !rights.Allowed(Send, w.Topic) {
		e.watcher.Denied(s.event(), Send, w.Topic)
		return
	}
	m := &Message{
		Topic: w.Topic, Payload: w.Payload, Properties: w.Properties, QoS: w.QoS, Retain: w.Retain,
		CreatedAt: e.now(), Publisher: s.clientID, Username: s.username,
	}
	if w.HasExpiry {
		m.SetExpiry(w.Expiry)
	}
	e.publish(m, s, nil)
}

// handBack takes out what another member of a shared subscription can have
// instead: what was not sent or, where the session ends, of QoS 1 also what was
// sent and not acknowledged [MQTT-4.8.2-5]. mu is held.
func (s *Session) handBack(ended bool) (moving []QueueRecord) {
	if !s.shares {
		return nil
	}
	for seq := s.out.head; seq < s.out.tail(); seq++ {
		e := s.out.get(seq)
		if e == nil || e.extra == nil || e.extra.share == "" || e.state&released != 0 {
			continue
		}
		if e.state&sent != 0 && (!ended || e.qos == 2) {
			continue
		}
		moving = append(moving, QueueRecord{SessionID: s.id, Seq: seq, Message: e.message, Share: e.extra.share})
	}
	return moving
}

// handOver gives messages to another member of the shared subscription they
// came by. Without another one they stay where they are.
func (e *Engine) handOver(from *Session, moving []QueueRecord) {
	for _, r := range moving {
		for _, g := range e.index.Match(r.Message.Topic).Groups {
			if g.Filter == r.Share {
				e.handOverOne(from, r, g)
			}
		}
	}
}

func (e *Engine) handOverOne(from *Session, r QueueRecord, g *topics.Group[*Session]) {
	for member := range g.Turn() {
		present, _ := member.Who.presence()
		if !present || member.Who == from || !member.Who.may(Receive, r.Message.Topic) {
			continue
		}
		if !from.giveUp(r.Seq) {
			return
		}
		pub := e.newPublication()
		pub.Owed = true
		if from.isStored() {
			pub.Dequeued = append(pub.Dequeued, r)
		}
		var touched []*Conn
		e.hand(member.Who, offerOf(&member, g.Filter, r.Message.again()), pub, &touched)
		e.submit(pub)
		for _, c := range touched {
			c.flush()
		}
		return
	}
}

// giveUp takes a message out of a queue that was not sent since.
func (s *Session) giveUp(seq uint64) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	e := s.out.get(seq)
	if e == nil || s.conn != nil || e.state&durable == 0 {
		return false
	}
	s.out.finish(seq, e)
	return true
}

// dropForbidden removes the subscriptions that a session may no longer have.
func (e *Engine) dropForbidden(s *Session) {
	s.mu.Lock()
	var filters []string
	for filter := range s.subscribed {
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
		e.store.Submit(changes)
	}
}

// event names the connection's client.
func (c *Conn) event() ClientEvent {
	return ClientEvent{ClientID: c.clientID, Username: c.username, Address: c.socket.Address}
}

func (s *Session) event() ClientEvent {
	return ClientEvent{ClientID: s.clientID, Username: s.username, Address: s.address}
}

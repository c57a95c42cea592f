package engine

// restore makes sessions and retained messages of what was stored. Clients that
// were connected when the process ended have been gone since now.
func (e *Engine) restore(stored *Snapshot) {
	e.lastMessage.Store(stored.LastMessageID)
	e.lastSession.Store(stored.LastSessionID)
	for _, m := range stored.Retained {
		e.retained.set(m)
	}
	interrupted := &Changes{Owed: true}
	for i := range stored.Sessions {
		s := e.restoreSession(&stored.Sessions[i])
		if stored.Sessions[i].DisconnectedAt == 0 {
			interrupted.PutSessions = append(interrupted.PutSessions, s.record())
		}
	}
	if len(interrupted.PutSessions) > 0 {
		e.store.Submit(interrupted)
	}
}

func (e *Engine) restoreSession(stored *StoredSession) *Session {
	s := &Session{
		engine: e, id: stored.ID, clientID: stored.ClientID, username: stored.Username, anonymous: stored.Anonymous,
		created: stored.CreatedAt, stored: true, version: stored.Version, clean: stored.Clean,
		keepAlive: stored.KeepAlive, expiry: stored.ExpiryInterval, connectedAt: stored.ConnectedAt,
		goneAt: stored.DisconnectedAt, address: stored.Address, will: stored.Will, willDueAt: stored.WillDueAt,
		out: newOutgoing(), window: int(e.config.MaxInflight),
	}
	s.lastGone, s.out.upTo = s.goneAt, stored.SentSeq
	s.rights = e.authority.Resume(s.clientID, s.username, s.anonymous)
	if s.goneAt == 0 {
		s.goneAt = e.now()
		s.lastGone = s.goneAt
		s.settleAway()
	}
	for _, r := range stored.Queue {
		s.restoreMessage(r, stored.DisconnectedAt != 0)
	}
	s.out.skip(s.out.upTo)
	for _, id := range stored.Incoming {
		s.receive(id)
	}
	e.sessions[s.clientID] = s
	e.ordered.Set(s)
	for _, r := range stored.Subscriptions {
		e.subscribe(s, grant{filter: r.Filter, options: optionsOf(r.Options, r.ID)})
	}
	e.schedule(s)
	return s
}

// restoreMessage puts a stored message back into the queue. Of a client that was
// connected when the process ended it is not known what it was sent, nor what it
// acknowledged last; so everything is sent as a duplicate [MQTT-3.3.1-1].
func (s *Session) restoreMessage(r QueueRecord, away bool) {
	entry := entry{
		message: r.Message, extra: newExtra(r.SubscriptionIDs, r.Share), qos: r.QoS, retain: r.Retain,
		state: durable, size: int32(r.Message.size()),
	}
	if r.Released {
		entry.state |= released | sent
	} else if !away || r.Seq <= s.out.upTo {
		entry.state |= sent
	}
	s.shares = s.shares || r.Share != ""
	s.expiring = s.expiring || r.Message.ExpiresAt != 0
	if entry.state&sent != 0 {
		s.out.upTo = max(s.out.upTo, r.Seq)
	}
	s.out.restore(r.Seq, entry)
}

package engine

import (
	"sync/atomic"

	"signalbox/broker/mqtt/packet"
)

// restoredAtOnce is how many sessions are restored at a time. The records of those that were
// connected when the process ended are one change.
const restoredAtOnce = 256

// restore begins a generation with the stored sessions and retained messages, and accepts
// clients. Clients that were connected when the process ended count as disconnected from now
// on. Meanwhile nothing scheduled is run, and messages above QoS 0 or to be retained are
// refused, because their recipients are not known.
func (e *Engine) restore(stored *Snapshot) {
	e.scheduled.running.Lock()
	defer e.scheduled.running.Unlock()
	raise(&e.lastMessage, stored.LastMessageID)
	raise(&e.lastSession, stored.LastSessionID)
	e.number(stored)
	now := e.beginGeneration(stored.Retained)
	for all := stored.Sessions; len(all) > 0; {
		n := min(len(all), restoredAtOnce)
		e.restoreSessions(all[:n], now)
		all = all[n:]
	}
	now.admit()
}

// number assigns a Serial to each stored message: the same wherever it is queued or retained,
// above those of all earlier messages, in the order of IDs.
func (e *Engine) number(stored *Snapshot) {
	above := e.serials.Add(stored.LastMessageID) - stored.LastMessageID
	for i := range stored.Sessions {
		queue := stored.Sessions[i].Queue
		for k := range queue {
			queue[k].Stub.Serial = above + queue[k].Stub.ID
		}
	}
	for _, m := range stored.Retained {
		m.serial.Store(above + m.ID)
	}
}

// raise raises a counter to at least a number.
func raise(counter *atomic.Uint64, to uint64) {
	for n := counter.Load(); n < to && !counter.CompareAndSwap(n, to); n = counter.Load() {
	}
}

// beginGeneration replaces the volatile generation and its retained messages.
func (e *Engine) beginGeneration(kept []*Message) *generation {
	e.retained.mu.Lock()
	defer e.retained.mu.Unlock()
	now := newGeneration(e.store, false)
	e.mu.Lock()
	e.generation.Swap(now).close()
	e.mu.Unlock()
	e.retained.forget()
	for _, m := range kept {
		e.retained.set(m)
	}
	return now
}

// restoreSessions restores sessions. The records of those that were interrupted are submitted
// before a client can take them over.
func (e *Engine) restoreSessions(stored []StoredSession, now *generation) {
	interrupted := &Changes{Owed: true}
	sessions := make([]*Session, len(stored))
	for i := range stored {
		s := e.restoreSession(&stored[i], now)
		sessions[i] = s
		stored[i].Queue = nil // releases memory for the sessions behind it
		if stored[i].DisconnectedAt == 0 {
			interrupted.PutSessions = append(interrupted.PutSessions, s.record())
		}
	}
	if len(interrupted.PutSessions) > 0 {
		now.submit(interrupted)
	}
	for i, s := range sessions {
		for _, r := range stored[i].Subscriptions {
			e.subscribe(s, grant{filter: r.Filter, options: optionsOf(r.Options, r.ID)})
		}
		e.install(s)
		e.schedule(s)
	}
}

// install makes a restored session the one of its client id. A client of an AdminOnly socket
// that used the client id while the engine was suspended is disconnected.
func (e *Engine) install(s *Session) {
	e.mu.Lock()
	other := e.sessions[s.clientID]
	e.sessions[s.clientID] = s
	e.ordered.Set(s)
	e.mu.Unlock()
	if other == nil {
		return
	}
	if c := other.connection(); c != nil {
		c.end(packet.ReasonSessionTakenOver, false)
	}
}

func (e *Engine) restoreSession(stored *StoredSession, now *generation) *Session {
	s := &Session{
		engine: e, generation: now, id: stored.ID, clientID: stored.ClientID, username: stored.Username, anonymous: stored.Anonymous,
		created: stored.CreatedAt, stored: true, expiry: stored.ExpiryInterval,
		client: lastConnect{
			version: stored.Version, clean: stored.Clean, keepAlive: stored.KeepAlive,
			connectedAt: stored.ConnectedAt, goneAt: stored.DisconnectedAt, address: stored.Address,
		},
		will: storedWill{record: stored.Will, dueAt: stored.WillDueAt},
		out:  newOutgoingQueue(), sending: sendLimits{window: int(e.config.MaxInflight)},
	}
	s.out.memory.total = &e.queuedMemory
	s.openAccount()
	s.client.lastGone, s.out.upTo = s.client.goneAt, stored.SentSeq
	s.rights = e.authority.Resume(s.clientID, s.username, s.anonymous)
	if s.client.goneAt == 0 {
		s.client.goneAt = e.now()
		s.client.lastGone = s.client.goneAt
		s.scheduleWill()
	}
	s.out.kept.reserve(len(stored.Queue))
	var x *extra
	for i := range stored.Queue {
		r := &stored.Queue[i]
		if !x.is(r.SubscriptionIDs, r.Share) {
			x = newExtra(r.SubscriptionIDs, r.Share)
		}
		s.restoreMessage(r, x, stored.DisconnectedAt != 0)
	}
	s.out.skip(s.out.upTo)
	for _, id := range stored.Incoming {
		s.noteIncoming(id)
	}
	return s
}

// restoreMessage adds a stored message to the queue. If the client was connected when the
// process ended, it is not known which messages it was sent and has acknowledged; so all are
// sent as duplicates [MQTT-3.3.1-1].
func (s *Session) restoreMessage(r *QueueRecord, x *extra, away bool) {
	stub := r.stub()
	entry := entry{
		message: r.Message, extra: x, qos: r.QoS, retain: r.Retain,
		state: committed, id: stub.ID, size: stub.Size, expires: stub.ExpiresAt, stamp: stub.Stamp,
		serial: stub.Serial,
	}
	if r.Released {
		entry.state |= released | sent
	} else if !away || r.Seq <= s.out.upTo {
		entry.state |= sent
	}
	s.out.shares = s.out.shares || r.Share != ""
	s.out.expiring = s.out.expiring || entry.expires != 0
	if entry.state&sent != 0 {
		s.out.upTo = max(s.out.upTo, r.Seq)
	}
	s.out.restore(r.Seq, entry)
}

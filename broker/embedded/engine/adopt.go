package engine

import (
	"fmt"
	"math"

	"signalbox/broker/mqtt/packet"
)

// Adoption is a session that this engine takes over from others. Its Will and its expiry
// are not due until Activate, or until its client is connected.
type Adoption struct {
	session *Session
	isNew   bool   // this engine had no session of the client id
	floor   uint64 // the sequence number that the next message would have without the gap
	base    uint64 // the first sequence number after the gap
}

// gap is how many sequence numbers are left free for messages that are still queued at
// other engines. It is far less than the number of packet identifiers, so that messages on
// both sides of it can be in flight.
const gap = 16 << 10

// Adopt opens a session of another engine, with its Will, where its next message would have the
// sequence number next and its latest CONNECT had a timestamp. From now on messages are queued for
// it here; Fill adds those that are queued elsewhere. If this engine has a session of the client
// id, whose client must be away, the two are merged, and the later CONNECT of both counts.
// Adopt waits until that is stored and other nodes have the routes.
func (e *Engine) Adopt(state *StoredSession, next, timestamp uint64) (*Adoption, error) {
	s, isNew := e.findOrCreateSession(state, timestamp)
	s.mu.Lock()
	if s.conn != nil {
		s.mu.Unlock()
		return nil, ErrLater
	}
	s.transfer.moving, s.stored = true, true
	if timestamp >= s.latest() && s.will.record == nil {
		s.will.record, s.will.dueAt = state.Will, state.WillDueAt
		s.recharge()
	}
	if timestamp > s.latest() {
		s.client.timestamp, s.client.connectedAt = timestamp, max(s.client.connectedAt, state.ConnectedAt)
	}
	a := &Adoption{session: s, isNew: isNew, floor: max(s.out.tail, next)}
	s.out.skip(a.floor + gap - 1)
	a.base = s.out.tail
	if s.transfer.adoptions++; s.transfer.keys == nil {
		s.transfer.keys = messageKeys{}
	}
	outcome := make(result, 1)
	changes := &Changes{Done: outcome}
	var grants []grant
	for _, r := range state.Subscriptions {
		if _, known := s.subscribed.options[r.Filter]; !known && packet.ValidFilter(r.Filter) {
			r.SessionID = s.id
			changes.Subscribed = append(changes.Subscribed, r)
			grants = append(grants, grant{filter: r.Filter, options: optionsOf(r.Options, r.ID)})
		}
	}
	s.put(changes)
	s.mu.Unlock()
	if err := <-outcome; err != nil {
		a.Close()
		if isNew {
			s.discardUnstored()
		}
		return nil, fmt.Errorf("store a session that comes from another node: %w", err)
	}
	for _, g := range grants {
		e.subscribe(s, g)
	}
	if isNew {
		s.mu.Lock()
		s.transfer.arrived = e.received.event()
		s.mu.Unlock()
	}
	e.awaitRoutes()
	return a, nil
}

// findOrCreateSession returns the session of a client id, which is new if isNew.
func (e *Engine) findOrCreateSession(state *StoredSession, timestamp uint64) (s *Session, isNew bool) {
	s = newSession(e, state.ClientID)
	s.username, s.anonymous, s.created = state.Username, state.Anonymous, state.CreatedAt
	s.client.version, s.client.clean, s.client.keepAlive, s.expiry = state.Version, state.Clean, state.KeepAlive, state.ExpiryInterval
	s.client.timestamp, s.client.connectedAt, s.client.goneAt, s.client.address = timestamp, state.ConnectedAt, state.DisconnectedAt, state.Address
	s.sending.window, s.transfer.moving = int(e.config.MaxInflight), true
	s.transfer.direct = &directMessages{first: map[directKey]uint64{}, pending: true} // until AddDirect
	if s.client.goneAt == 0 {
		s.client.goneAt = e.now()
	}
	s.client.lastGone = s.client.goneAt
	s.rights = e.authority.Resume(s.clientID, s.username, s.anonymous)
	e.mu.Lock()
	defer e.mu.Unlock()
	if there := e.sessions[s.clientID]; there != nil {
		s.rights.Release()
		return there, false
	}
	s.openAccount()
	s.generation = e.generation.Load()
	e.sessions[s.clientID] = s
	e.ordered.Set(s)
	return s, true
}

// discardUnstored ends a session that is not stored.
func (s *Session) discardUnstored() {
	s.mu.Lock()
	s.stored = false
	s.dropWill() // the other engine has it
	ended := s.conclude()
	s.mu.Unlock()
	ended.complete()
}

// ForgetIncoming deletes the packet identifiers of QoS 2 messages that the client has sent to this
// engine: it was connected to another one later, which has those that it has not released.
func (a *Adoption) ForgetIncoming() {
	a.session.mu.Lock()
	defer a.session.mu.Unlock()
	a.session.forgetIncoming(&Changes{Owed: true})
}

// Activate lets the Will and the expiry of the session be due again.
func (a *Adoption) Activate() {
	a.session.mu.Lock()
	a.session.transfer.moving = false
	a.session.mu.Unlock()
	a.session.engine.schedule(a.session)
}

// Close ends the adoption. It is called once, when no more messages of the session can
// arrive from other engines.
func (a *Adoption) Close() {
	a.session.mu.Lock()
	defer a.session.mu.Unlock()
	if a.session.transfer.adoptions--; a.session.transfer.adoptions == 0 {
		a.session.transfer.keys = nil
	}
}

// Discard ends an adoption before Fill. A session that was new here is deleted.
func (a *Adoption) Discard() {
	a.Close()
	if a.isNew {
		(&Handover{a.session}).End(math.MaxUint64 - 1)
		return
	}
	a.Activate()
}

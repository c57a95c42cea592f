package engine

import "signalbox/broker/mqtt/packet"

// Estimates of the memory of parts of a session, in bytes. These parts are in memory from
// the start on, so the quota also bounds the memory that a start needs.
const (
	stubMemory     = 200 // a queued message without its content, here and in the store's reference counts
	extraMemory    = 48  // its subscription identifiers and share, without their text
	incomingMemory = 48  // a packet identifier of QoS 2 that the client has not released
)

// freeIncoming is how many packet identifiers are not counted: ordinary clients have few in
// flight, and touch no counter that others use.
const freeIncoming = 64

// owner returns to whom the session is charged.
func (s *Session) owner() owner { return owner{s.username, s.anonymous} }

// openAccount counts a session that exists already, regardless of the bounds.
func (s *Session) openAccount() {
	s.out.account = s.engine.quotas.hold(s.owner())
	s.out.account.add(QuotaSessions, 1)
	s.recharge()
}

// reserveNew counts a new session with its client's Will, unless a quota forbids it. Clients
// of AdminOnly sockets, and those that are part of the broker, are accepted regardless of the quotas. mu is held.
func (s *Session) reserveNew(c *Conn) error {
	if c.socket.AdminOnly || s.engine.isUnbounded(s.owner()) {
		s.out.account.add(QuotaSessions, 1)
		return nil
	}
	if !s.out.account.take(QuotaSessions, 1) {
		s.engine.refused(QuotaSessions, s.clientID, s.username)
		return errSessions
	}
	if err := s.reserveWill(c); err != nil {
		s.out.account.add(QuotaSessions, -1)
		return err
	}
	return nil
}

// reserveWill counts the memory of the session with the Will of a connection, unless a quota
// forbids it. mu is held.
func (s *Session) reserveWill(c *Conn) error {
	if c.socket.AdminOnly {
		return nil
	}
	if !s.reserveBytes(s.ownBytes(newWill(c.hello.Will).size())) {
		return errSessionBytes
	}
	return nil
}

// reserveBytes raises the counted memory of the session to bytes, unless a quota forbids it.
// mu is held.
func (s *Session) reserveBytes(bytes int64) bool {
	more := bytes - s.charged
	if more <= 0 || s.ended {
		return true
	}
	if !s.out.account.take(QuotaSessionBytes, more) {
		s.engine.refused(QuotaSessionBytes, s.clientID, s.username)
		return false
	}
	s.charged = bytes
	return true
}

// ownBytes returns the memory of the session with a Will of a size, without its queue. mu is
// held.
func (s *Session) ownBytes(will int) int64 {
	return int64(len(s.clientID)+len(s.username)+will) + incomingMemory*int64(max(len(s.incoming.ids)-freeIncoming, 0))
}

// recharge updates the counted memory of the session. It is called after each change. mu is
// held.
func (s *Session) recharge() {
	bytes := int64(0)
	if !s.ended {
		bytes = s.ownBytes(s.will.record.size())
	}
	if more := bytes - s.charged; more != 0 {
		s.out.account.add(QuotaSessionBytes, more)
		s.charged = bytes
	}
}

// dropWill removes the Will of the session. mu is held.
func (s *Session) dropWill() {
	s.will.record, s.will.dueAt = nil, 0
	s.recharge()
}

// size returns the length of a Will's texts, 0 for none.
func (w *WillRecord) size() int {
	if w == nil {
		return 0
	}
	return len(w.Topic) + len(w.Payload) + len(w.Properties)
}

// newWill returns the Will of a CONNECT, nil for none.
func newWill(w *packet.Will) *WillRecord {
	if w == nil {
		return nil
	}
	return &WillRecord{
		Topic: w.Topic, Payload: w.Payload, Properties: w.Properties, QoS: w.QoS, Retain: w.Retain,
		Delay: w.Delay, Expiry: w.Expiry, HasExpiry: w.HasExpiry,
	}
}

// Refusals of clients whose session would exceed a quota.
var (
	errSessions     = &Refusal{Reason: packet.ReasonQuotaExceeded, Text: "there are as many sessions as the configuration allows"}
	errSessionBytes = &Refusal{Reason: packet.ReasonQuotaExceeded, Text: "the sessions take as much memory as the configuration allows"}
)

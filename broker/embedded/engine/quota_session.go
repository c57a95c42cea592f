package engine

import "signalbox/broker/mqtt/packet"

// Estimates of the memory that parts of a session take, in bytes. What is counted by
// them is in memory from the start on, so the quota also bounds what a start needs.
const (
	stubMemory     = 200 // a queued message without its content, here and in the store's reference counts
	extraMemory    = 48  // its subscription identifiers and share, without their text
	incomingMemory = 48  // a packet identifier of QoS 2 that the client has not released
)

// freeIncoming is how many packet identifiers are not counted: ordinary clients have
// few under way, and touch no counter that others use.
const freeIncoming = 64

// owner is who the session is charged to.
func (s *Session) owner() owner { return owner{s.username, s.anonymous} }

// openAccount counts a session that exists, whatever the bounds.
func (s *Session) openAccount() {
	s.out.account = s.engine.quotas.hold(s.owner())
	s.out.account.add(QuotaSessions, 1)
	s.recharge()
}

// reserveNew counts a new session with its client's Will, unless a quota forbids it.
// Administrators come in however many sessions there are. mu is held.
func (s *Session) reserveNew(c *Conn) error {
	if c.socket.AdminOnly {
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

// reserveWill counts what the session takes with the Will of a connection, unless a
// quota forbids it. mu is held.
func (s *Session) reserveWill(c *Conn) error {
	if c.socket.AdminOnly {
		return nil
	}
	if !s.reserveBytes(s.ownBytes(newWill(c.hello.Will).size())) {
		return errSessionBytes
	}
	return nil
}

// reserveBytes counts the session as one that takes so many bytes, unless a quota
// forbids it. mu is held.
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

// ownBytes is what the session takes with a Will of a size, but for its queue. mu is
// held.
func (s *Session) ownBytes(will int) int64 {
	return int64(len(s.clientID)+len(s.username)+will) + incomingMemory*int64(max(len(s.incoming.ids)-freeIncoming, 0))
}

// recharge counts what the session takes now. It is called after each change of
// that. mu is held.
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

// dropWill makes the session have no Will. mu is held.
func (s *Session) dropWill() {
	s.will.record, s.will.dueAt = nil, 0
	s.recharge()
}

// size is that of a Will's texts, 0 for none.
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

// Refusals of clients whose session would be one too many, or too large.
var (
	errSessions     = &Refusal{Reason: packet.ReasonQuotaExceeded, Text: "there are as many sessions as the configuration allows"}
	errSessionBytes = &Refusal{Reason: packet.ReasonQuotaExceeded, Text: "the sessions take as much memory as the configuration allows"}
)

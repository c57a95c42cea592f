package engine

import (
	"context"

	"signalbox/broker/mqtt/packet"
)

// Claims ensures that only one of several engines has the session of a client id.
type Claims interface {
	// Claim is called for an authenticated client, before it is assigned its session, and
	// may wait. It moves the session to this engine if another engine has it, or refuses
	// the client with a *Refusal. If it returns no error, done is called once it is known
	// whether the client has its session.
	Claim(ctx context.Context, c Claim) (done func(), err error)
}

// Claim is the request of a client for its session.
type Claim struct {
	ClientID   string
	Username   string
	Anonymous  bool
	CleanStart bool   // end the present session and begin a new one
	Timestamp  uint64 // of its CONNECT
	KeepWill   bool   // it is not the client that claims its session: the Will is due unless the timestamp is a later one
}

// The refusals of a client that cannot have the session of its client id.
var (
	ErrLater   error = &Refusal{Reason: packet.ReasonServerUnavailable, Text: "a later connection has the session"}
	ErrForeign error = &Refusal{Reason: packet.ReasonClientIDNotValid, Text: "the client id belongs to another username"}
)

// SetClaims sets the Claims that are asked for every client; nil removes them.
func (e *Engine) SetClaims(c Claims) {
	e.publishing.on.Store(c != nil)
	if c == nil {
		e.claims.Store(nil)
		return
	}
	e.claims.Store(&c)
}

// claimSession assigns the connection its session, once no other engine has it. A client id that
// was assigned by this broker needs no claim.
func (c *Conn) claimSession(assigned bool) (s *Session, present bool, err error) {
	claims := c.engine.claims.Load()
	if claims == nil || assigned {
		return c.engine.assignSession(c)
	}
	done, err := (*claims).Claim(c.engine.ctx, Claim{
		ClientID: c.clientID, Username: c.username, Anonymous: c.anonymous,
		CleanStart: c.hello.CleanStart, Timestamp: c.timestamp,
	})
	if err != nil {
		return nil, false, err
	}
	defer done()
	s, present, err = c.engine.assignSession(c)
	return s, present && !s.isUntold(), err
}

// nextTimestamp returns the timestamp of a CONNECT (a Lamport clock): the time, but later
// than all known timestamps of this and other engines.
func (e *Engine) nextTimestamp() uint64 {
	now := uint64(e.config.Now().UnixMicro())
	for {
		last := e.lastTimestamp.Load()
		next := max(last+1, now)
		if e.lastTimestamp.CompareAndSwap(last, next) {
			return next
		}
	}
}

// ObserveTimestamp makes later timestamps greater than one of another engine.
func (e *Engine) ObserveTimestamp(timestamp uint64) {
	for last := e.lastTimestamp.Load(); last < timestamp && !e.lastTimestamp.CompareAndSwap(last, timestamp); {
		last = e.lastTimestamp.Load()
	}
}

package engine

import (
	"context"

	"signalbox/broker/mqtt/packet"
)

// Claims sees to it that, of several engines, one has the session of a client id.
type Claims interface {
	// Claim is called for a client that was let in, before it is given its
	// session, and may take its time. It leaves the session here, if there is one
	// anywhere, or refuses the client with a *Refusal. Where it does not fail,
	// done is called once it is known whether the client has its session.
	Claim(ctx context.Context, c Claim) (done func(), err error)
}

// Claim is a client that wants its session.
type Claim struct {
	ClientID   string
	Username   string
	Anonymous  bool
	CleanStart bool   // it wants a new one, and the old one ended
	Timestamp  uint64 // its CONNECT's timestamp
}

// The refusals of a client that cannot have the session of its client id.
var (
	ErrLater   error = &Refusal{Reason: packet.ReasonServerUnavailable, Text: "a later connection has the session"}
	ErrForeign error = &Refusal{Reason: packet.ReasonClientIDNotValid, Text: "the client id belongs to another username"}
)

// SetClaims has claims asked from now on for every client; nil ends that.
func (e *Engine) SetClaims(c Claims) {
	e.publishing.on.Store(c != nil)
	if c == nil {
		e.claims.Store(nil)
		return
	}
	e.claims.Store(&c)
}

// obtain gets the connection its session, once no other engine has it. The id
// that a client was assigned is nobody else's.
func (c *Conn) obtain(assigned bool) (s *Session, present bool, err error) {
	claims := c.engine.claims.Load()
	if claims == nil || assigned {
		return c.engine.occupy(c)
	}
	done, err := (*claims).Claim(c.engine.life, Claim{
		ClientID: c.clientID, Username: c.username, Anonymous: c.anonymous,
		CleanStart: c.hello.CleanStart, Timestamp: c.timestamp,
	})
	if err != nil {
		return nil, false, err
	}
	defer done()
	return c.engine.occupy(c)
}

// nextTimestamp returns the timestamp of a CONNECT (a Lamport clock): after all that are known, here and at other
// engines, and else by the clock.
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

// ObserveTimestamp puts the CONNECTs from now on behind one at another engine.
func (e *Engine) ObserveTimestamp(arrival uint64) {
	for last := e.lastTimestamp.Load(); last < arrival && !e.lastTimestamp.CompareAndSwap(last, arrival); {
		last = e.lastTimestamp.Load()
	}
}

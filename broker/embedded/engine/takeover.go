package engine

import (
	"time"

	"signalbox/broker/mqtt/packet"
)

// assignSession assigns the connection the session of its client id: the present one, after ending
// an older connection [MQTT-3.1.4-3], or a new one. Of several connections that wait for the
// session, the one with the latest CONNECT gets it; the others are refused. A client id
// belongs to the username that opened its session, until that has ended.
func (e *Engine) assignSession(c *Conn) (s *Session, present bool, err error) {
	h := c.hello
	for {
		s, previous := e.lookUp(h.ClientID, c)
		if waited, err := e.awaitPrevious(previous, s, c); err != nil {
			return nil, false, err
		} else if waited {
			continue
		}
		switch {
		case s == nil:
			if s, err = e.open(c); s != nil || err != nil {
				return s, false, err
			}
		case h.CleanStart || s.isOver():
			e.end(s)
		default:
			if taken, err := s.take(c); taken || err != nil {
				return s, taken, err
			}
		}
	}
}

// awaitPrevious ends the connection that has the session for which c waits, if there is one, and reports whether it did.
// That of another user is waited for only if it has ended.
func (e *Engine) awaitPrevious(previous *Conn, s *Session, c *Conn) (waited bool, err error) {
	isForeign := s != nil && (s.username != c.username || s.anonymous != c.anonymous)
	switch {
	case isForeign && (previous == nil || !previous.isClosed()):
		return false, ErrForeign
	case isForeign:
		return true, e.awaitEnd(previous)
	case previous != nil:
		return true, e.evict(previous, c)
	}
	return false, nil
}

// evict ends the connection that has the session for which c waits [MQTT-3.1.4-3]. It
// returns ErrLater if the CONNECT of that connection came after that of c.
func (e *Engine) evict(previous, c *Conn) error {
	if previous.timestamp > c.timestamp {
		return ErrLater
	}
	previous.end(packet.ReasonSessionTakenOver, false)
	return e.awaitEnd(previous)
}

// awaitEnd waits until an older connection has left its session, or has ended it.
func (e *Engine) awaitEnd(previous *Conn) error {
	if !previous.awaitDone(e.config.EvictTimeout) {
		return &Refusal{Reason: packet.ReasonServerUnavailable, Text: "the older connection does not end"}
	}
	return nil
}

// lookUp returns the session of a client id, and the connection that has it.
func (e *Engine) lookUp(clientID string, c *Conn) (*Session, *Conn) {
	e.mu.Lock()
	s := e.sessions[clientID]
	e.mu.Unlock()
	if s == nil {
		return nil, nil
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.conn == c {
		return s, nil
	}
	return s, s.conn
}

// awaitDone waits until the connection has ended and left its session. It returns false after
// a timeout.
func (c *Conn) awaitDone(d time.Duration) bool {
	timeout := time.NewTimer(d)
	defer timeout.Stop()
	select {
	case <-c.done:
		return true
	case <-timeout.C:
		return false
	}
}

// open creates a session, unless there is one by now.
func (e *Engine) open(c *Conn) (*Session, error) {
	s := newSession(e, c.hello.ClientID)
	s.username, s.anonymous = c.username, c.anonymous
	s.mu.Lock()
	defer s.mu.Unlock()
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.sessions[s.clientID] != nil {
		return nil, nil
	}
	s.out.account = e.quotas.hold(s.owner())
	if err := s.reserveNew(c); err != nil {
		s.out.account.release()
		return nil, err
	}
	e.sessions[s.clientID] = s
	e.ordered.Set(s)
	s.attach(c)
	s.generation = e.generation.Load()
	if !s.generation.admits.Load() { // a client of an AdminOnly socket, while the engine is suspended
		s.expiry = 0
	}
	return s, nil
}

// take assigns a disconnected session to its client's new connection. It returns false if the
// session has ended or has a connection by now, and an error if a quota forbids the
// connection's Will.
func (s *Session) take(c *Conn) (bool, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.ended || s.conn != nil || !s.keeps() {
		return false, nil
	}
	if err := s.reserveWill(c); err != nil {
		return false, err
	}
	s.rights.Release()
	s.out.rewind()
	s.attach(c)
	return true, nil
}

// isOver reports whether the session should have ended with its connection. That is so for a
// session that was stored only for its Will and has just been restored.
func (s *Session) isOver() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.conn == nil && !s.keeps()
}

// attach attaches a connection to its session. mu is held.
func (s *Session) attach(c *Conn) {
	h := c.hello
	defer s.announcePresence()
	s.conn, s.rights, s.client.version, s.client.keepAlive = c, c.rights, c.version, h.KeepAlive
	s.client.clean = s.client.clean || h.CleanStart
	s.client.protocol, s.client.timestamp = c.socket.Protocol, c.timestamp
	s.client.connectedAt, s.client.goneAt, s.client.address = s.engine.now(), 0, c.socket.Address
	s.sending.window = int(min(s.engine.config.MaxInflight, h.ReceiveMaximum))
	s.sending.maxPacket, s.sending.aliases = h.MaximumPacketSize, newAliases(h.TopicAliasMaximum)
	s.sending.toBridge = h.Peer != ""
	s.will.record, s.will.dueAt = newWill(h.Will), 0
	s.recharge()
	s.expiry = 0
	switch {
	case c.version >= 5:
		s.expiry = min(h.SessionExpiry, s.engine.config.MaxSessionExpiry)
	case !h.CleanStart:
		s.expiry = s.engine.config.MaxSessionExpiry
	}
}

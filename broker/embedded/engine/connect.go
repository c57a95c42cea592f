package engine

import (
	"context"
	"crypto/rand"
	"errors"
	"strings"
	"time"

	"signalbox/broker/wire"
)

// maxConnectSize bounds the packet of a peer that has not said who it is: a
// Will, username, password and client id of 64 KiB each, and properties.
const maxConnectSize = 320 << 10

// evictTimeout is how long a client waits for an older connection with its
// client id to be gone.
const evictTimeout = 5 * time.Second

// greet waits for CONNECT and lets the client in, or does not.
func (c *Conn) greet() error {
	p, err := c.awaitConnect()
	if err != nil {
		return err
	}
	return c.apart(func() error { return c.onConnect(p) })
}

// onConnect handles CONNECT.
func (c *Conn) onConnect(p []byte) error {
	h, err := wire.DecodeConnect(p)
	if h != nil {
		c.clientID, c.username = h.ClientID, h.Username
		c.version, c.bridge, c.hello = h.Version, h.Bridge, h
	}
	c.in.reader.take(len(p))
	if err != nil {
		return c.reject(err)
	}
	c.arrival = c.engine.arrive()
	c.engine.meters.packetsReceived.Add(1)
	if c.socket.Greeted != nil {
		c.socket.Greeted()
	}
	c.era = c.engine.era.Load()
	if c.isShutOut() {
		return c.reject(errElsewhere)
	}
	assigned, err := c.admit()
	if err != nil {
		return c.reject(err)
	}
	return c.establish(assigned)
}

// awaitConnect reads the first packet, which must be a CONNECT that comes in
// time [MQTT-3.1.0-1].
func (c *Conn) awaitConnect() ([]byte, error) {
	c.watch(c.engine.config.ConnectTimeout)
	r := &c.in.reader
	for {
		if r.n > 0 && r.buf[0] != wire.TypeConnect<<4 {
			return nil, errNoConnect
		}
		size, err := c.sizeOf(r.buf[:r.n])
		if err != nil {
			return nil, errNoConnect
		}
		if size > 0 {
			return r.buf[:size], nil
		}
		if err := r.read(); err != nil {
			return nil, err
		}
	}
}

var errNoConnect = errors.New("the first packet is no CONNECT of a fit size")

// admit decides whether the client is let in, and tells the client id that it
// was given, if it was.
func (c *Conn) admit() (assigned string, err error) {
	h := c.hello
	if h.HasAuthMethod {
		return "", &Refusal{Reason: wire.ReasonBadAuthMethod, Text: "enhanced authentication is not offered"}
	}
	if h.ClientID == "" {
		if c.version < 5 && !h.CleanStart { // [MQTT-3.1.3-8 of 3.1.1]
			return "", &Refusal{Reason: wire.ReasonClientIDNotValid, Text: "a session without client id cannot be kept"}
		}
		if c.version == 3 {
			return "", &Refusal{Reason: wire.ReasonClientIDNotValid, Text: "the version demands a client id"}
		}
		assigned = "auto-" + rand.Text()
		h.ClientID, c.clientID = assigned, assigned
	}
	if w := h.Will; w != nil && (strings.HasPrefix(w.Topic, controlPrefix) || !c.engine.validDepth(w.Topic)) {
		return "", &Refusal{Reason: wire.ReasonNotAuthorized, Text: "the Will's topic is not one to publish to"}
	}
	return assigned, c.logIn()
}

// logIn has the authority decide. The password is forgotten afterwards.
func (c *Conn) logIn() error {
	h := c.hello
	login := &Login{
		Socket: c.socket, ClientID: h.ClientID,
		Username: h.Username, HasUsername: h.HasUsername, Password: h.Password, HasPassword: h.HasPassword,
	}
	defer func() { clear(h.Password); h.Password = nil }()
	ctx, cancel := context.WithTimeout(c.engine.life, c.engine.config.LoginTimeout)
	defer cancel()
	if !c.socket.AdminOnly {
		defer context.AfterFunc(c.era.ctx, cancel)()
	}
	admission, err := c.engine.authority.Authenticate(ctx, login)
	if err != nil {
		return err
	}
	c.rights = admission.Rights
	c.username, c.anonymous = admission.Username, admission.Anonymous
	c.engine.join(c)
	if c.rights.Cut() {
		return &Refusal{Reason: wire.ReasonNotAuthorized, Text: "rights changed during the log-in"}
	}
	return nil
}

// establish puts the client in the possession of its session and tells it so.
func (c *Conn) establish(assigned string) error {
	keepAlive := c.keepAlive()
	c.hello.KeepAlive, c.asked = keepAlive, c.hello.KeepAlive
	s, present, err := c.obtain(assigned != "")
	if err != nil {
		return c.reject(err)
	}
	c.session = s
	if err := c.engine.storeSession(s); err != nil {
		return c.reject(unstored(err))
	}
	c.in.heard = c.engine.config.Now()
	c.active.Store(c.in.heard.UnixMilli())
	if c.in.idle > 0 {
		c.watch(c.in.idle)
	} else {
		c.socket.SetReadDeadline(time.Time{}) //nolint:errcheck // reading will tell
	}
	c.engine.meters.enter()
	c.send(wire.AppendConnack(nil, c.version, c.connack(present, assigned, keepAlive)))
	c.hello = nil
	c.established.Store(true)
	c.engine.watcher.Connected(c.event())
	c.flush()
	if c.rights.Cut() { // between the log-in and now
		c.cut.Store(true)
		c.end(wire.ReasonAdministrativeAction, false)
	}
	return nil
}

// unstored refuses a client whose session could not be stored.
func unstored(err error) *Refusal {
	if errors.Is(err, ErrUncertain) {
		return errElsewhere
	}
	return &Refusal{Reason: wire.ReasonQuotaExceeded, Text: "the session cannot be stored at present"}
}

// keepAlive sets how long the client may be silent, one and a half times what
// it said [MQTT-3.1.2-22], and gives the interval in seconds.
func (c *Conn) keepAlive() uint16 {
	k := c.hello.KeepAlive
	if limit := c.engine.config.MaxKeepAlive; limit > 0 && (k == 0 || k > limit) && c.version >= 5 {
		k = limit
	}
	c.in.idle = time.Duration(k) * 3 * time.Second / 2
	return k
}

// connack tells the client what it is not able to know otherwise.
func (c *Conn) connack(present bool, assigned string, keepAlive uint16) *wire.Connack {
	a := &wire.Connack{SessionPresent: present && c.version > wire.V31} // MQTT 3.1 has no word for it
	if c.version < 5 {
		return a
	}
	cfg := &c.engine.config
	a.AssignedClientID, a.Peer = assigned, c.engine.nameFor(c.hello)
	a.ReceiveMaximum = cfg.ReceiveMaximum
	a.TopicAliasMaximum = cfg.TopicAliasMaximum
	if cfg.TellPacketSize {
		a.MaximumPacketSize = uint32(cfg.MaxPacketSize)
	}
	if keepAlive != c.asked {
		a.HasServerKeepAlive, a.ServerKeepAlive = true, keepAlive
	}
	if granted := c.session.lasts(); c.hello.SessionExpiry > granted {
		a.HasSessionExpiry, a.SessionExpiry = true, granted
	}
	return a
}

// occupy gives the connection the session of its client id: the one that is
// there, with whoever has it thrown out [MQTT-3.1.4-3], or a new one. Of those
// who want it at once, the one whose CONNECT came last has it in the end.
func (e *Engine) occupy(c *Conn) (s *Session, present bool, err error) {
	h := c.hello
	for {
		s, previous := e.claim(h.ClientID, c)
		if s != nil && (s.username != c.username || s.anonymous != c.anonymous) {
			return nil, false, ErrForeign
		}
		if previous != nil && previous.arrival > c.arrival { // while c waited
			return nil, false, ErrLater
		}
		if previous != nil {
			previous.end(wire.ReasonSessionTakenOver, false)
			if !previous.gone(evictTimeout) {
				return nil, false, &Refusal{Reason: wire.ReasonServerUnavailable, Text: "the older connection does not end"}
			}
			continue
		}
		switch {
		case s == nil:
			if s = e.open(c); s != nil {
				return s, false, nil
			}
		case h.CleanStart:
			e.end(s)
		case s.take(c):
			return s, true, nil
		}
	}
}

// claim finds the session of a client id, and the connection that has it.
func (e *Engine) claim(clientID string, c *Conn) (*Session, *Conn) {
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

// gone waits for the connection to be gone altogether.
func (c *Conn) gone(d time.Duration) bool {
	timeout := time.NewTimer(d)
	defer timeout.Stop()
	select {
	case <-c.done:
		return true
	case <-timeout.C:
		return false
	}
}

// open makes a session, unless there is one by now.
func (e *Engine) open(c *Conn) *Session {
	s := newSession(e, c.hello.ClientID)
	s.username, s.anonymous = c.username, c.anonymous
	s.mu.Lock()
	defer s.mu.Unlock()
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.sessions[s.clientID] != nil {
		return nil
	}
	e.sessions[s.clientID] = s
	e.ordered.Set(s)
	s.assume(c)
	s.era = e.era.Load()
	if !s.era.admits.Load() { // of an administrator, while the engine is suspended
		s.expiry = 0
	}
	return s
}

// take gives a session that waited to its client's new connection. It answers
// false if the session is another's or gone by now.
func (s *Session) take(c *Conn) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.ended || s.conn != nil {
		return false
	}
	s.rights.Release()
	s.out.rewind()
	s.assume(c)
	return true
}

// assume sets what a connection brings to its session. mu is held.
func (s *Session) assume(c *Conn) {
	h := c.hello
	defer s.tellPresence()
	s.conn, s.rights, s.version, s.clean, s.keepAlive = c, c.rights, c.version, h.CleanStart, h.KeepAlive
	s.protocol, s.arrival = c.socket.Protocol, c.arrival
	s.connectedAt, s.goneAt, s.address = s.engine.now(), 0, c.socket.Address
	s.window = int(min(s.engine.config.MaxInflight, h.ReceiveMaximum))
	s.maxPacket, s.aliases = h.MaximumPacketSize, newAliases(h.TopicAliasMaximum)
	s.toBridge = h.Peer != ""
	s.will, s.willDueAt = nil, 0
	if w := h.Will; w != nil {
		s.will = &WillRecord{
			Topic: w.Topic, Payload: w.Payload, Properties: w.Properties, QoS: w.QoS, Retain: w.Retain,
			Delay: w.Delay, Expiry: w.Expiry, HasExpiry: w.HasExpiry,
		}
	}
	s.expiry = 0
	switch {
	case c.version >= 5:
		s.expiry = min(h.SessionExpiry, s.engine.config.MaxSessionExpiry)
	case !h.CleanStart:
		s.expiry = s.engine.config.MaxSessionExpiry
	}
}

// storeSession stores a session that is kept, before its client hears of it. A
// session that is stored already can do without for the time being.
func (e *Engine) storeSession(s *Session) error {
	s.mu.Lock()
	known := s.stored
	if !known && s.era.isOver() {
		s.expiry = 0
	}
	if !s.keeps() && !known {
		s.mu.Unlock()
		return nil
	}
	s.stored = true
	outcome := make(result, 1)
	s.put(&Changes{Owed: known, Done: outcome})
	s.mu.Unlock()
	err := e.outcome(outcome, known)
	if err != nil {
		s.mu.Lock()
		s.stored, s.expiry = false, 0
		s.mu.Unlock()
	}
	if errors.Is(err, errOver) {
		return nil // it lasts as long as the connection
	}
	return err
}

// lasts gives how long the session is kept after its connection, in seconds.
func (s *Session) lasts() uint32 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.expiry
}

// commit has changes of the session stored and waits for that.
func (s *Session) commit(c *Changes) error {
	outcome := make(result, 1)
	c.Done = outcome
	s.era.submit(c)
	return s.engine.outcome(outcome, c.Owed)
}

// owedPatience is after how long somebody who waits for changes that are owed
// looks whether they can be stored at all.
const owedPatience = 100 * time.Millisecond

// outcome waits for the outcome of changes. Those that are owed come to nothing
// as long as nothing can be stored; nobody waits for that.
func (e *Engine) outcome(r result, owed bool) error {
	if !owed {
		return <-r
	}
	for {
		select {
		case err := <-r:
			return err
		case <-time.After(owedPatience):
			if err := e.store.Err(); err != nil && !errors.Is(err, ErrUncertain) {
				return nil
			}
		}
	}
}

// result is the outcome of changes that somebody waits for.
type result chan error

// Settled tells the one who waits.
func (r result) Settled(_ *Changes, err error) { r <- err }

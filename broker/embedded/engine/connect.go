package engine

import (
	"context"
	"crypto/rand"
	"errors"
	"strings"
	"time"

	"signalbox/broker/mqtt/packet"
)

// maxConnectSize bounds a CONNECT: a Will, username, password and client id of 64 KiB
// each, and properties.
const maxConnectSize = 320 << 10

// greet waits for CONNECT and accepts or rejects the client.
func (c *Conn) greet() error {
	size, err := c.awaitConnect()
	if err != nil {
		return err
	}
	return c.onOwnGoroutine(func() error { return c.onConnect(size) })
}

// onConnect handles the CONNECT at the beginning of the read buffer. It does not keep the
// buffer, because the log-in may have to wait.
func (c *Conn) onConnect(size int) error {
	h, err := packet.DecodeConnect(c.in.reader.buf[:size])
	if h != nil {
		c.clientID, c.username = h.ClientID, h.Username
		c.version, c.bridge, c.hello, c.maxPacket = h.Version, h.Bridge, h, h.MaximumPacketSize
	}
	c.in.reader.take(size)
	if err != nil {
		return c.reject(err)
	}
	c.timestamp = c.engine.nextTimestamp()
	c.engine.meters.packetsReceived.Add(1)
	if c.socket.OnConnect != nil {
		c.socket.OnConnect()
	}
	c.generation = c.engine.generation.Load()
	if c.isRedirected() {
		return c.reject(errRedirected)
	}
	assigned, err := c.admit()
	if errors.Is(err, errLeft) {
		c.engine.meters.left.Add(1)
		return err
	}
	if err == nil && c.isDiverted() {
		err = errRedirected
	}
	if err != nil {
		return c.reject(err)
	}
	return c.establish(assigned)
}

// awaitConnect reads the first packet, which must be a CONNECT [MQTT-3.1.0-1] within
// ConnectTimeout, and returns its size.
func (c *Conn) awaitConnect() (int, error) {
	c.watch(c.engine.config.ConnectTimeout)
	r := &c.in.reader
	for {
		if r.n > 0 && r.buf[0] != packet.TypeConnect<<4 {
			return 0, errNoConnect
		}
		size, err := c.sizeOf(r.buf[:r.n])
		if err != nil {
			return 0, errNoConnect
		}
		if size > 0 {
			return size, nil
		}
		if err := r.read(); err != nil {
			return 0, err
		}
	}
}

var errNoConnect = errors.New("the first packet is not a CONNECT of a valid size")

// admit validates CONNECT and authenticates the client. It returns the client id if the
// broker assigned one.
func (c *Conn) admit() (assigned string, err error) {
	h := c.hello
	if h.HasAuthMethod {
		return "", &Refusal{Reason: packet.ReasonBadAuthMethod, Text: "enhanced authentication is not supported"}
	}
	if h.ClientID == "" {
		if c.version < 5 && !h.CleanStart { // [MQTT-3.1.3-8 of 3.1.1]
			return "", &Refusal{Reason: packet.ReasonClientIDNotValid, Text: "a session without a client id cannot be persistent"}
		}
		if c.version == 3 {
			return "", &Refusal{Reason: packet.ReasonClientIDNotValid, Text: "this version of MQTT requires a client id"}
		}
		assigned = "auto-" + rand.Text()
		h.ClientID, c.clientID = assigned, assigned
	}
	if w := h.Will; w != nil && (strings.HasPrefix(w.Topic, controlPrefix) || !c.engine.validDepth(w.Topic)) {
		return "", &Refusal{Reason: packet.ReasonNotAuthorized, Text: "the topic of the Will is not allowed"}
	}
	return assigned, c.logIn()
}

// logIn authenticates the client, and clears the password afterwards.
func (c *Conn) logIn() error {
	h := c.hello
	login := &Login{
		Socket: c.socket, ClientID: h.ClientID,
		Username: h.Username, HasUsername: h.HasUsername, Password: h.Password, HasPassword: h.HasPassword,
		WhileConnected: c.whileConnected,
	}
	defer func() { clear(h.Password); h.Password = nil }()
	ctx, cancel := context.WithTimeout(c.engine.ctx, c.engine.config.LoginTimeout)
	defer cancel()
	if !c.socket.AdminOnly {
		defer context.AfterFunc(c.generation.ctx, cancel)()
	}
	admission, err := c.engine.authority.Authenticate(ctx, login)
	if err != nil {
		return err
	}
	c.rights = admission.Rights
	c.username, c.anonymous = admission.Username, admission.Anonymous
	c.engine.addUserConn(c)
	if c.rights.Revoked() {
		return &Refusal{Reason: packet.ReasonNotAuthorized, Text: "rights changed during the log-in"}
	}
	return nil
}

// establish assigns the client its session and sends CONNACK.
func (c *Conn) establish(assigned string) error {
	keepAlive := c.keepAlive()
	c.hello.KeepAlive, c.asked = keepAlive, c.hello.KeepAlive
	if !c.fits(len(c.connack(true, assigned, keepAlive, 0))) { // before a session is touched
		return c.reject(errAnswerTooLarge)
	}
	s, present, err := c.claimSession(assigned != "")
	if err != nil {
		return c.reject(err)
	}
	c.session = s
	if err := c.engine.storeSession(s); err != nil {
		return c.reject(unstored(err))
	}
	if c.generation.isOver() && !c.socket.AdminOnly {
		return c.reject(errRedirected) // Suspend may have discarded the session before obtain looked for it
	}
	c.in.heard = time.Now()
	c.active.Store(c.engine.now())
	c.watchSilence(c.patience(), 0)
	c.engine.meters.enter()
	c.send(c.connack(present, assigned, keepAlive, s.lasts()))
	c.hello = nil
	c.in.reader.loggedIn = true
	c.socket.reserve(0) //nolint:errcheck // nothing is asked for
	c.established.Store(true)
	c.engine.watcher.Connected(c.event())
	c.flush()
	if c.rights.Revoked() { // rights changed since the log-in
		c.evicted.Store(true)
		c.end(packet.ReasonAdministrativeAction, false)
	}
	return nil
}

// unstored returns the refusal of a client whose session could not be stored.
func unstored(err error) *Refusal {
	if errors.Is(err, ErrUncertain) {
		return errRedirected
	}
	return &Refusal{Reason: packet.ReasonQuotaExceeded, Text: "the session cannot be stored at present"}
}

// keepAlive sets how long the client may be silent, one and a half times the Keep Alive
// [MQTT-3.1.2-22], and returns the Keep Alive in force, in seconds.
func (c *Conn) keepAlive() uint16 {
	k := c.hello.KeepAlive
	if limit := c.engine.config.MaxKeepAlive; limit > 0 && (k == 0 || k > limit) && c.version >= 5 {
		k = limit
	}
	c.in.idle = time.Duration(k) * 3 * time.Second / 2
	return k
}

// connack returns the CONNACK of an accepted client, whose session is kept for lasts
// seconds. Optional properties are left out if the packet would be too large for the
// client [MQTT-3.2.2-20].
func (c *Conn) connack(present bool, assigned string, keepAlive uint16, lasts uint32) []byte {
	a := &packet.Connack{SessionPresent: present && c.version > packet.V31} // MQTT 3.1 has no such flag
	if c.version < 5 {
		return packet.AppendConnack(nil, c.version, a)
	}
	cfg := &c.engine.config
	a.AssignedClientID, a.Peer = assigned, c.engine.nameFor(c.hello)
	a.ReceiveMaximum = cfg.ReceiveMaximum
	a.TopicAliasMaximum = cfg.TopicAliasMaximum
	if cfg.AnnouncePacketSize {
		a.MaximumPacketSize = uint32(cfg.MaxPacketSize)
	}
	if keepAlive != c.asked {
		a.HasServerKeepAlive, a.ServerKeepAlive = true, keepAlive
	}
	if c.hello.SessionExpiry > lasts {
		a.HasSessionExpiry, a.SessionExpiry = true, lasts
	}
	p := packet.AppendConnack(nil, c.version, a)
	if a.Peer != "" && !c.fits(len(p)) {
		a.Peer = ""
		p = packet.AppendConnack(nil, c.version, a)
	}
	return p
}

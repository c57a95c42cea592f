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

// onConnect handles the CONNECT at the beginning of the read buffer.
func (c *Conn) onConnect(size int) error {
	assigned, err := c.receiveConnect(size)
	if err != nil {
		return c.reject(err)
	}
	return c.admit(assigned)
}

// receiveConnect decodes and checks the CONNECT at the beginning of the read buffer. It does not
// keep the buffer, because the log-in may have to wait. It returns the client id if the broker
// assigned one.
func (c *Conn) receiveConnect(size int) (assigned string, err error) {
	h, err := packet.DecodeConnect(c.in.reader.buf[:size])
	if h != nil {
		c.clientID, c.username = h.ClientID, h.Username
		c.version, c.bridge, c.hello, c.maxPacket = h.Version, h.Bridge, h, h.MaximumPacketSize
	}
	c.in.reader.take(size)
	if err != nil {
		return "", err
	}
	c.timestamp = c.engine.nextTimestamp()
	c.engine.meters.packetsReceived.Add(1)
	if c.socket.OnConnect != nil {
		c.socket.OnConnect()
	}
	c.generation = c.engine.generation.Load()
	if c.isRedirected() {
		return "", errRedirected
	}
	return c.checkConnect()
}

// admit authenticates the client and accepts or rejects it. It may wait.
func (c *Conn) admit(assigned string) error {
	err := c.logIn()
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
	if err := c.checkResponse(assigned); err != nil {
		return c.reject(err)
	}
	return c.claim(assigned)
}

// awaitConnect reads the first packet, which must be a CONNECT [MQTT-3.1.0-1] within
// ConnectTimeout, and returns its size.
func (c *Conn) awaitConnect() (int, error) {
	c.watch(c.engine.config.ConnectTimeout)
	for {
		if size, err := c.sizeOfConnect(); size > 0 || err != nil {
			return size, err
		}
		if err := c.in.reader.read(); err != nil {
			return 0, err
		}
	}
}

// sizeOfConnect returns the size of the CONNECT in the buffer, 0 if it is not complete.
func (c *Conn) sizeOfConnect() (int, error) {
	r := &c.in.reader
	if r.n > 0 && r.buf[0] != packet.TypeConnect<<4 {
		return 0, errNoConnect
	}
	size, err := c.sizeOf(r.buf[:r.n])
	if err != nil {
		return 0, errNoConnect
	}
	return size, nil
}

var errNoConnect = errors.New("the first packet is not a CONNECT of a valid size")

// checkConnect validates CONNECT. It returns the client id if the broker assigned one.
func (c *Conn) checkConnect() (assigned string, err error) {
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
	return assigned, nil
}

// logIn authenticates the client, and clears the password afterwards.
func (c *Conn) logIn() error {
	defer c.clearPassword()
	ctx, cancel := context.WithTimeout(c.engine.ctx, c.engine.config.LoginTimeout)
	defer cancel()
	if !c.socket.AdminOnly {
		defer context.AfterFunc(c.generation.ctx, cancel)()
	}
	return c.authenticate(ctx, false)
}

func (c *Conn) clearPassword() {
	clear(c.hello.Password)
	c.hello.Password = nil
}

// authenticate asks the Authority, which must not wait if atOnce is set.
func (c *Conn) authenticate(ctx context.Context, atOnce bool) error {
	h := c.hello
	admission, err := c.engine.authority.Authenticate(ctx, &Login{
		Socket: c.socket, ClientID: h.ClientID,
		Username: h.Username, HasUsername: h.HasUsername, Password: h.Password, HasPassword: h.HasPassword,
		AtOnce: atOnce, WhileConnected: c.whileConnected,
	})
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

// checkResponse decides what CONNACK has, and returns an error if it is too large for the client:
// before a session is touched.
func (c *Conn) checkResponse(assigned string) error {
	keepAlive := c.keepAlive()
	c.hello.KeepAlive, c.asked = keepAlive, c.hello.KeepAlive
	if !c.fits(len(c.connack(true, assigned, keepAlive, 0))) {
		return errAnswerTooLarge
	}
	return nil
}

// claim assigns the client its session and sends CONNACK, or rejects it. It may wait.
func (c *Conn) claim(assigned string) error {
	s, present, err := c.claimSession(assigned != "")
	if err == nil {
		err = c.establish(s, present, assigned)
	}
	if err != nil {
		return c.reject(err)
	}
	c.flush()
	return nil
}

// establish sends CONNACK once the session is stored, if it has to be. The caller flushes.
func (c *Conn) establish(s *Session, present bool, assigned string) error {
	c.session = s
	if err := c.engine.storeSession(s); err != nil {
		return unstored(err)
	}
	if c.generation.isOver() && !c.socket.AdminOnly {
		return errRedirected // Suspend may have discarded the session before obtain looked for it
	}
	c.in.heard = time.Now()
	c.active.Store(c.engine.now())
	if c.socket.Polled == nil {
		c.watchSilence(c.patience(), 0)
	} else {
		c.engine.silent.watch(c, c.in.idle)
	}
	c.engine.meters.enter()
	c.send(c.connack(present, assigned, c.hello.KeepAlive, s.lasts()))
	c.hello = nil
	c.untold = s.isUntold()
	c.in.reader.loggedIn = true
	c.socket.reserve(0) //nolint:errcheck // nothing is asked for
	c.established.Store(true)
	c.engine.watcher.Connected(c.event())
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

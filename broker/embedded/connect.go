package embedded

import (
	"context"
	"errors"
	"strings"
	"time"

	"github.com/mochi-mqtt/server/v2/packets"

	"signalbox/broker/dynsec"
	"signalbox/broker/embedded/access"
)

// grace is how long a connection that is being ended has to take what is still
// to be written to it.
const grace = time.Second

// evictTimeout is how long a client waits for an older connection with its
// client id to be gone.
const evictTimeout = 5 * time.Second

// loginTimeout is how long a client waits while others' passwords are verified,
// as after a restart when all come back at once.
const loginTimeout = 30 * time.Second

// bridgeBit marks, in the protocol version, a connection that Mosquitto's
// bridges open; it means nothing else.
const bridgeBit = 0x80

// greet takes out of CONNECT what the broker decides about itself.
func (b *Broker) greet(l *link, pk packets.Packet) (packets.Packet, error) {
	if l.client != nil {
		return pk, nil // a second CONNECT: the server ends the connection
	}
	if v := pk.ProtocolVersion &^ bridgeBit; v == 3 || v == 4 {
		pk.ProtocolVersion = v
	}
	c := &pk.Connect
	l.hello.keepAlive = time.Duration(c.Keepalive) * time.Second
	l.hello.clean = c.Clean
	l.hello.credentials = access.Credentials{
		Username:    string(c.Username),
		HasUsername: c.UsernameFlag,
		Password:    c.Password,
		HasPassword: c.PasswordFlag,
	}
	if len(c.Password) == 0 {
		c.PasswordFlag = false // an empty one is legal; the server would not take it
	}
	return takeWill(l, pk)
}

// admit decides whether a client is let in: CodeSuccess, or the reason for the
// CONNACK. The client id is its alone afterwards.
func (b *Broker) admit(l *link) packets.Code {
	account, err := b.authenticate(l)
	switch {
	case errors.Is(err, access.ErrNotAuthorized):
		return b.refuse(l, packets.ErrNotAuthorized, "not authorised")
	case err != nil:
		b.log.Warn("a log-in could not be decided", "remote", l.RemoteAddr().String(), "error", err)
		return packets.ErrServerUnavailable
	}
	l.account = account
	b.registry.join(l)
	switch {
	case account.Cut():
		return b.refuse(l, packets.ErrNotAuthorized, "rights changed during the log-in")
	case l.listener.config.AdminOnly && !account.Allowed(dynsec.PublishSend, l.client.ID, dynsec.Topic):
		return b.refuse(l, packets.ErrNotAuthorized, "the listener is for administrators")
	case l.will != nil && strings.HasPrefix(l.will.TopicName, controlPrefix):
		return b.refuse(l, packets.ErrNotAuthorized, "a Will on $CONTROL")
	}
	return b.occupy(l)
}

// authenticate gives the account of a client, anonymous ones included.
func (b *Broker) authenticate(l *link) (*access.Account, error) {
	cr := &l.hello.credentials
	cr.ClientID = l.client.ID
	defer func() {
		clear(cr.Password) // the server keeps CONNECT as long as the connection
		cr.Password = nil
	}()
	if cr.Username == "" {
		if !b.config.AllowAnonymous {
			return nil, access.ErrNotAuthorized
		}
		return b.control.Anonymous(), nil
	}
	ctx, cancel := context.WithTimeout(context.Background(), loginTimeout)
	defer cancel()
	return b.control.Authenticate(ctx, *cr)
}

// occupy takes the client id over from an older connection and waits until that
// is gone [MQTT-3.1.4-3].
func (b *Broker) occupy(l *link) packets.Code {
	previous, ok := b.registry.claim(l, l.client.ID)
	if !ok {
		return b.refuse(l, packets.ErrClientIdentifierNotValid, "the client id belongs to another username")
	}
	if previous == nil {
		return packets.CodeSuccess
	}
	previous.end(packets.ErrSessionTakenOver)
	timeout := time.NewTimer(evictTimeout)
	defer timeout.Stop()
	select {
	case <-previous.done:
		return packets.CodeSuccess
	case <-timeout.C:
		return b.refuse(l, packets.ErrServerUnavailable, "the older connection with this client id does not end")
	}
}

func (b *Broker) refuse(l *link, code packets.Code, why string) packets.Code {
	b.log.Debug("client refused", "clientid", l.client.ID, "username", l.hello.credentials.Username,
		"remote", l.RemoteAddr().String(), "reason", why)
	return code
}

// establish puts the client's session in the place of the one that waited for
// it.
func (b *Broker) establish(l *link) {
	b.meters.enter()
	away, pending := b.registry.establish(l)
	if pending != nil && l.hello.clean { // the old session ends [MQTT-3.1.2-8]
		b.publishWill(pending)
	}
	if away != nil {
		away.account.Release()
	}
	b.log.Debug("client connected", "clientid", l.client.ID, "username", l.hello.credentials.Username,
		"remote", l.RemoteAddr().String())
}

// connack puts right the server's answer to CONNECT: the reason of a refusal in
// the terms of the client's version, and the limits that it did not tell.
func (b *Broker) connack(l *link, pk packets.Packet) packets.Packet {
	if pk.ReasonCode == packets.CodeSuccess.Code {
		pk.Properties.MaximumPacketSize = uint32(b.config.MaxPacketSize)
		return pk
	}
	code := pk.ReasonCode
	if l.refusal.Code != packets.CodeSuccess.Code {
		code = l.refusal.Code
		pk.Properties.ReasonString = ""
	}
	pk.ReasonCode = connackCode(pk.ProtocolVersion, code)
	if pk.ReasonCode == packets.CodeSuccess.Code {
		pk.FixedHeader.Type = packets.Reserved // not sent: the version has no word for it
	}
	return pk
}

// connackCode translates a reason of MQTT 5 for older versions: 0 means that
// there is none and the connection is closed without an answer [MQTT-3.2.2-6 of
// 3.1.1].
func connackCode(version, code byte) byte {
	if code == packets.ErrProtocolViolationProtocolVersion.Code && (version < 3 || version > 5) {
		code = packets.ErrUnsupportedProtocolVersion.Code
	}
	if version >= 5 {
		return code
	}
	switch code {
	case packets.ErrUnsupportedProtocolVersion.Code:
		return packets.Err3UnsupportedProtocolVersion.Code
	case packets.ErrClientIdentifierNotValid.Code, packets.ErrUnspecifiedError.Code: // no client id and no Clean Session
		return packets.Err3ClientIdentifierNotValid.Code
	case packets.ErrServerUnavailable.Code:
		return packets.Err3ServerUnavailable.Code
	case packets.ErrNotAuthorized.Code:
		return packets.Err3NotAuthorized.Code
	}
	if code < packets.ErrUnspecifiedError.Code {
		return code // translated by the server already
	}
	return packets.CodeSuccess.Code
}

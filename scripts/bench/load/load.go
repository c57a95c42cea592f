//go:build linux

// Package load puts MQTT brokers under load with many cheap clients, which check every
// message for loss, order and repetition. Each load is a closed loop: the messages in
// flight are bounded, so that a broker is never measured while it drops.
//
// It must not import anything of this module but broker/mqtt/mqtttest/packet: it measures the
// product from outside, as it measures its peers. The caller measures the broker's cost
// of a load, around Session.Play.
package load

import (
	"context"
	"errors"
	"fmt"
	"net"
	"time"

	"signalbox/broker/mqtt/mqtttest/packet"
)

// Target is a broker to load, and the credentials for it.
type Target struct {
	Addr               string // host:port
	Username, Password string // an empty username connects without credentials
	ReadAddr           string // where subscribers connect; empty is Addr
}

// Load describes what a broker has to do.
type Load interface {
	// Open connects the clients of the load. Ctx bounds the whole session.
	Open(ctx context.Context, t Target) (Session, error)
}

// Session is a load whose clients are connected.
type Session interface {
	// Play publishes that many messages, and returns when all of them have arrived.
	// Loss, a change of order, a repetition and a standstill are errors, after which
	// the session cannot be used. It must not be called concurrently.
	Play(ctx context.Context, messages int) (Pass, error)
	Close() error
}

// Pass is the result of one Play.
type Pass struct {
	Delivered int // messages, once per subscriber if there are any
	Dropped   int // messages that a stream has dropped, if the load allows that
	Took      time.Duration
	Latencies []time.Duration // sorted; only of loads with a rate
}

// patience is the time without progress after which a load counts as stuck.
const patience = time.Minute

// bufferSize is the size of a client's read buffer.
const bufferSize = 64 << 10

var (
	errStuck = errors.New("nothing moved any more")
	errWrong = errors.New("a broker's packet is wrong")
)

// client is an accepted connection.
type client struct {
	net.Conn
	in *packet.Reader
}

// dial connects. Buffer is in bytes; it may be small where little is read.
func dial(ctx context.Context, addr string, login packet.Login, from net.IP, buffer int) (*client, error) {
	d := net.Dialer{Timeout: patience}
	if from != nil {
		d.LocalAddr = &net.TCPAddr{IP: from}
	}
	conn, err := d.DialContext(ctx, "tcp", addr)
	if err != nil {
		return nil, err
	}
	c := &client{Conn: conn, in: packet.NewReader(conn, buffer)}
	if err := c.login(login); err != nil {
		conn.Close()
		return nil, fmt.Errorf("log in as %q: %w", login.ClientID, err)
	}
	return c, nil
}

func (c *client) login(l packet.Login) error {
	body, err := c.ask(packet.AppendConnect(nil, l), packet.Connack)
	if err != nil {
		return err
	}
	if len(body) != 2 || body[1] != 0 {
		return fmt.Errorf("CONNACK % x: %w", body, errWrong)
	}
	return nil
}

// subscribe subscribes, and requires that the QoS is granted as requested.
func (c *client) subscribe(filter string, qos byte) error {
	body, err := c.ask(packet.AppendSubscribe(nil, 1, filter, qos), packet.Suback)
	if err != nil {
		return fmt.Errorf("subscribe to %s: %w", filter, err)
	}
	if len(body) != 3 || body[2] != qos {
		return fmt.Errorf("subscribe to %s: SUBACK % x: %w", filter, body, errWrong)
	}
	return nil
}

// ask sends a packet and returns the body of the next one, which must have the awaited
// type.
func (c *client) ask(request []byte, awaited byte) ([]byte, error) {
	if err := c.SetDeadline(time.Now().Add(2 * patience)); err != nil {
		return nil, err
	}
	if _, err := c.Write(request); err != nil {
		return nil, err
	}
	first, body, err := c.in.Next()
	if err != nil {
		return nil, err
	}
	if first != awaited {
		return nil, fmt.Errorf("packet %#x instead of %#x: %w", first, awaited, errWrong)
	}
	return body, c.SetDeadline(time.Time{})
}

// leave disconnects without the session's Will.
func (c *client) leave() error {
	_, err := c.Write(packet.AppendEmpty(nil, packet.Disconnect))
	return errors.Join(err, c.Close())
}

// login returns the parameters of CONNECT. There is no keep-alive: the measured times
// are short.
func (t Target) login(clientID, username string, clean bool) packet.Login {
	if username == "" {
		username = t.Username
	}
	return packet.Login{ClientID: clientID, Username: username, Password: t.Password, Clean: clean}
}

// Package mqtttest has the MQTT clients of tests that use a broker over the network:
// [Client], which sends and receives single packets, with a codec of its own, and [Paho],
// which is a library that other people use, too.
//
// It must not import the product: a client that shares its codec would share its mistakes.
package mqtttest

import (
	"fmt"
	"net"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"signalbox/broker/mqtt/mqtttest/packet"
	"signalbox/scripts/suite"
)

// Client is an MQTT client without logic of its own: it sends the packets that the test
// asks for, and returns those that it receives. It belongs to one goroutine.
type Client struct {
	T        testing.TB
	Conn     net.Conn
	Version  byte
	ID       string        // of the latest CONNECT
	PacketID uint16        // of the latest request
	Patience time.Duration // for each packet, however long the test takes
	// PassOver reports whether Want passes over a message that it is not waiting for; nil
	// for none.
	PassOver func(message packet.Packet) bool

	in *packet.Reader
}

// New returns a client on a connection, which the end of the test closes.
func New(t testing.TB, conn net.Conn, version byte) *Client {
	t.Helper()
	t.Cleanup(func() { conn.Close() })
	c := &Client{T: t, Version: version, Patience: suite.HangLimit}
	c.Use(conn)
	return c
}

// Use makes the client continue on another connection.
func (c *Client) Use(conn net.Conn) { c.Conn, c.in = conn, packet.NewReader(conn, 16<<10) }

// connects counts the clients that have sent CONNECT, so that no two have the same client
// id: those of different brokers may have the same port.
var connects atomic.Int64

// Connect sends CONNECT, by default of a client with a clean session and a client id of its
// own, and must be accepted. It returns the CONNACK.
func (c *Client) Connect(options ...Option) packet.Packet {
	c.T.Helper()
	ack := c.SendConnect(options...)
	if ack.Reason != 0 {
		c.T.Fatalf("%s: CONNACK code %#x, want 0", c.ID, ack.Reason)
	}
	return ack
}

// SendConnect is Connect for a client that need not be accepted.
func (c *Client) SendConnect(options ...Option) packet.Packet {
	c.T.Helper()
	pk := NewConnect(fmt.Sprint(strings.ReplaceAll(c.T.Name(), "/", "-"), connects.Add(1)), options...)
	c.ID = pk.Connect.ClientID
	c.Send(pk)
	return c.Want(packet.Connack)
}

// Send sends a packet.
func (c *Client) Send(pk packet.Packet) {
	c.T.Helper()
	c.SendBytes(pk.Append(nil, c.Version)...)
}

// SendBytes sends bytes.
func (c *Client) SendBytes(b ...byte) {
	c.T.Helper()
	if err := c.TrySend(b); err != nil {
		c.T.Fatalf("send: %v", err)
	}
}

// TrySend is SendBytes that returns an error.
func (c *Client) TrySend(b []byte) error {
	c.Conn.SetWriteDeadline(time.Now().Add(c.Patience)) //nolint:errcheck // the write returns the error
	_, err := c.Conn.Write(b)
	return err
}

// Next returns the next packet, or an error when the connection has ended.
func (c *Client) Next() (packet.Packet, error) {
	c.Conn.SetReadDeadline(time.Now().Add(c.Patience)) //nolint:errcheck // the read returns the error
	first, body, err := c.in.Next()
	if err != nil {
		return packet.Packet{}, err
	}
	return packet.Decode(first, body, c.Version)
}

// Want returns the next packet, which must have one of the types.
func (c *Client) Want(types ...byte) packet.Packet {
	c.T.Helper()
	pk, err := c.Next()
	for err == nil && c.PassOver != nil && pk.Type == packet.Publish && !slices.Contains(types, packet.Publish) && c.PassOver(pk) {
		pk, err = c.Next()
	}
	if err != nil {
		c.T.Fatalf("waiting for a packet of types %#x: %v", types, err)
	}
	if !slices.Contains(types, pk.Type) {
		c.T.Fatalf("got a packet of type %#x (topic %q, code %#x), want types %#x", pk.Type, pk.Topic, pk.Reason, types)
	}
	return pk
}

// WantMessage returns the next packet, which must be a PUBLISH with this topic and payload.
func (c *Client) WantMessage(topic, payload string) packet.Packet {
	c.T.Helper()
	pk := c.Want(packet.Publish)
	if pk.Topic != topic || string(pk.Payload) != payload {
		c.T.Fatalf("got %q on %q, want %q on %q", pk.Payload, pk.Topic, payload, topic)
	}
	return pk
}

// WantEnd waits until the broker has closed the connection without sending anything.
func (c *Client) WantEnd() {
	c.T.Helper()
	pk, err := c.Next()
	if err == nil {
		c.T.Fatalf("got a packet of type %#x (topic %q), want the end", pk.Type, pk.Topic)
	}
	if isTimeout(err) {
		c.T.Fatal("the connection was not closed")
	}
}

// WantDisconnect waits until the broker ends the connection, and passes over messages. A
// client of MQTT 5 must receive DISCONNECT with this reason before.
func (c *Client) WantDisconnect(reason byte) {
	c.T.Helper()
	for {
		pk, err := c.Next()
		switch {
		case err == nil && pk.Type == packet.Publish:
		case err == nil && pk.Type == packet.Disconnect && c.Version == packet.V5:
			if pk.Reason != reason {
				c.T.Fatalf("DISCONNECT with reason %#x, want %#x", pk.Reason, reason)
			}
			return
		case err != nil && c.Version != packet.V5 && !isTimeout(err):
			return
		default:
			c.T.Fatalf("got a packet of type %#x, error %v, want to be disconnected", pk.Type, err)
		}
	}
}

func isTimeout(err error) bool {
	e, ok := err.(net.Error) //nolint:errorlint // straight from the connection
	return ok && e.Timeout()
}

// Disconnect sends DISCONNECT and closes the connection.
func (c *Client) Disconnect() {
	c.T.Helper()
	c.Send(packet.Packet{Type: packet.Disconnect})
	c.Drop()
}

// Drop closes the connection without DISCONNECT.
func (c *Client) Drop() { c.Conn.Close() }

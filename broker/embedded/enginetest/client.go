package enginetest

import (
	"bufio"
	"encoding/binary"
	"fmt"
	"io"
	"net"
	"testing"
	"time"

	"signalbox/broker/embedded/engine"
	"signalbox/broker/mqtt/packet"
)

// Client is an MQTT client that sends and receives single packets.
type Client struct {
	net.Conn
	T       testing.TB
	In      *bufio.Reader // of the connection
	Version byte
	Present bool // Session Present of CONNACK

	timeout time.Duration
	id      string         // its client id; "" if the broker assigned it
	engine  *engine.Engine // that it is connected to
}

// Message is a PUBLISH that the client received.
type Message struct {
	Topic, Payload string
	QoS            byte
	ID             uint16
	Dup            bool
}

// Refused is the reason code of a CONNACK, as an error.
type Refused byte

func (r Refused) Error() string { return fmt.Sprintf("refused: 0x%02x", byte(r)) }

// Persistent returns a CONNECT of a session that outlives its connection.
func Persistent(id string) packet.Connect {
	return packet.Connect{ClientID: id, SessionExpiry: 3600, HasSessionExpiry: true}
}

// Clean returns a CONNECT of a new session that ends with its connection.
func Clean(id string) packet.Connect { return packet.Connect{ClientID: id, CleanStart: true} }

// Dial opens a connection. The end of the test closes it.
func (b *Broker) Dial() *Client {
	b.T.Helper()
	c, err := b.TryDial()
	Check(b.T, err)
	b.T.Cleanup(func() { c.Close() })
	return c
}

// TryDial is Dial that returns an error. The caller closes the connection.
func (b *Broker) TryDial() (*Client, error) {
	conn, err := b.open()
	if err != nil {
		return nil, err
	}
	return &Client{Conn: conn, T: b.T, In: bufio.NewReader(conn), Version: packet.V5, timeout: b.Timeout, engine: b.Engine}, nil
}

// open opens a connection to the broker.
func (b *Broker) open() (net.Conn, error) {
	if b.Addr == "" {
		return Buffered(b.Pipe()), nil
	}
	return net.Dial("tcp", b.Addr)
}

// Connect opens a connection and waits for CONNACK, which must accept it. The end of the
// test closes it.
func (b *Broker) Connect(h packet.Connect) *Client {
	b.T.Helper()
	c, err := b.TryConnect(h)
	if err != nil {
		b.T.Fatalf("connect %q: %v", h.ClientID, err)
	}
	b.T.Cleanup(func() { c.Close() })
	return c
}

// TryConnect is Connect that returns an error, of type Refused if CONNACK refuses. The
// caller closes the connection.
func (b *Broker) TryConnect(h packet.Connect) (*Client, error) {
	c, err := b.TryDial()
	if err != nil {
		return nil, err
	}
	if err := c.TryConnect(h); err != nil {
		c.Close()
		return nil, err
	}
	return c, nil
}

// TryConnect sends CONNECT and reads CONNACK. The error is of type Refused if that refuses.
func (c *Client) TryConnect(h packet.Connect) error {
	if h.Version == 0 {
		h.Version = packet.V5
	}
	c.Version = h.Version
	if h.ReceiveMaximum == 0 {
		h.ReceiveMaximum = 65535
	}
	if err := c.TrySend(packet.AppendConnect(nil, &h)); err != nil {
		return err
	}
	p, err := c.Read()
	switch {
	case err != nil:
		return err
	case p[0]>>4 != packet.TypeConnack:
		return fmt.Errorf("got a packet % x, want CONNACK", p[:min(len(p), 40)])
	case p[3] != 0:
		return Refused(p[3])
	}
	c.Present, c.id = p[2] == 1, h.ClientID
	return nil
}

// Send sends a packet.
func (c *Client) Send(p []byte) {
	c.T.Helper()
	if err := c.TrySend(p); err != nil {
		c.T.Fatalf("send: %v", err)
	}
}

// TrySend is Send that returns an error.
func (c *Client) TrySend(p []byte) error {
	if err := c.SetWriteDeadline(time.Now().Add(c.timeout)); err != nil {
		return err
	}
	defer c.SetWriteDeadline(time.Time{}) //nolint:errcheck // what is closed has none
	_, err := c.Write(p)
	return err
}

// Read returns the next packet.
func (c *Client) Read() ([]byte, error) {
	if err := c.SetReadDeadline(time.Now().Add(c.timeout)); err != nil {
		return nil, err
	}
	return c.Next()
}

// Next is Read with the read deadline that is set already.
func (c *Client) Next() ([]byte, error) {
	size := 0
	for n := 2; size == 0; n++ {
		head, err := c.In.Peek(n)
		if err != nil {
			return nil, err
		}
		if size, err = packet.Size(head); err != nil {
			return nil, err
		}
	}
	p := make([]byte, size)
	_, err := io.ReadFull(c.In, p)
	return p, err
}

// Want returns the next packet, which must be of the type.
func (c *Client) Want(kind byte) []byte {
	c.T.Helper()
	p, err := c.Read()
	if err != nil {
		c.T.Fatalf("wait for a packet of type %d: %v", kind, err)
	}
	if p[0]>>4 != kind {
		c.T.Fatalf("got a packet % x, want one of type %d", p[:min(len(p), 40)], kind)
	}
	return p
}

// AwaitClose waits for the end of the connection.
func (c *Client) AwaitClose() {
	c.T.Helper()
	for {
		if _, err := c.Read(); err != nil {
			return
		}
	}
}

// Subscribe waits for SUBACK, which must grant the subscription.
func (c *Client) Subscribe(filter string, options byte) {
	c.T.Helper()
	c.Send(packet.AppendSubscribe(nil, c.Version, &packet.Subscribe{PacketID: 1, Filters: []packet.Filter{{Filter: filter, Options: options}}}))
	if p := c.Want(packet.TypeSuback); p[len(p)-1] >= 0x80 {
		c.T.Fatalf("SUBACK refuses: % x", p)
	}
}

// Publish sends a message.
func (c *Client) Publish(o packet.Outgoing) {
	c.T.Helper()
	c.Send(packet.AppendPublish(nil, c.Version, &o))
}

// Ack sends an acknowledgement.
func (c *Client) Ack(kind byte, id uint16) {
	c.T.Helper()
	c.Send(packet.AppendAck(nil, c.Version, kind, id, 0, ""))
}

// WantAck returns the next packet as an acknowledgement of a type.
func (c *Client) WantAck(kind byte) packet.Ack {
	c.T.Helper()
	p := c.Want(kind)
	a := packet.Ack{Type: kind, PacketID: PacketID(p)}
	if len(p) > 4 {
		a.Reason = p[4]
	}
	return a
}

// PacketID returns the packet identifier of an acknowledgement.
func PacketID(p []byte) uint16 { return binary.BigEndian.Uint16(p[2:]) }

// WantMessage returns the next packet as a message.
func (c *Client) WantMessage() Message {
	c.T.Helper()
	return c.Parse(c.Want(packet.TypePublish))
}

// Parse decodes a PUBLISH.
func (c *Client) Parse(p []byte) Message {
	c.T.Helper()
	var pk packet.Publish
	if err := packet.DecodePublish(p, c.Version, &pk); err != nil {
		c.T.Fatalf("PUBLISH % x: %v", p, err)
	}
	return Message{string(pk.Topic), string(pk.Payload), pk.QoS, pk.PacketID, p[0]&8 != 0}
}

// Ping waits until the broker has handled everything that was sent, and returns its
// response.
func (c *Client) Ping() []byte {
	c.T.Helper()
	c.Send(packet.AppendPingreq(nil))
	p, err := c.Read()
	Check(c.T, err)
	return p
}

// Disconnect sends DISCONNECT, and waits for the end of the connection and until its session
// is without one: the broker closes the connection first.
func (c *Client) Disconnect() {
	c.T.Helper()
	before, _ := c.engine.Ownership(c.id) //nolint:errcheck // without a session it is empty
	c.Send([]byte{packet.TypeDisconnect << 4, 0})
	c.AwaitClose()
	Until(c.T, c.timeout, "the session of the client is without a connection", func() bool {
		now, err := c.engine.Ownership(c.id)
		return err != nil || !now.Connected || now.Timestamp != before.Timestamp
	})
}

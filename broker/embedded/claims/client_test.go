package claims_test

import (
	"bufio"
	"encoding/binary"
	"fmt"
	"io"
	"net"
	"time"

	"signalbox/broker/wire"
)

// conn is the client's side of a connection, packet by packet.
type conn struct {
	net.Conn
	in      *bufio.Reader
	present bool
}

// refused is the reason in a CONNACK.
type refused byte

func (r refused) Error() string { return fmt.Sprintf("refused: 0x%02x", byte(r)) }

// dial connects with MQTT 5.
func (n *node) dial(h wire.Connect) (*conn, error) {
	socket, err := net.Dial("tcp", n.addr)
	if err != nil {
		return nil, err
	}
	c := &conn{Conn: socket, in: bufio.NewReader(socket)}
	h.Version = wire.V5
	if h.ReceiveMaximum == 0 {
		h.ReceiveMaximum = 65535
	}
	if _, err := c.Write(wire.AppendConnect(nil, &h)); err != nil {
		c.Close()
		return nil, err
	}
	p, err := c.read()
	if err == nil && p[3] != 0 {
		err = refused(p[3])
	}
	if err != nil {
		c.Close()
		return nil, err
	}
	c.present = p[2] == 1
	return c, nil
}

// connect is dial that must succeed.
func (n *node) connect(h wire.Connect) *conn {
	n.cluster.t.Helper()
	c, err := n.dial(h)
	if err != nil {
		n.cluster.t.Fatalf("connect %q to node %d: %v", h.ClientID, n.number, err)
	}
	n.cluster.t.Cleanup(func() { c.Close() })
	return c
}

// keeps is a CONNECT of a session that is kept.
func keeps(id string) wire.Connect {
	return wire.Connect{ClientID: id, SessionExpiry: 3600, HasSessionExpiry: true}
}

// read gives the next packet.
func (c *conn) read() ([]byte, error) {
	if err := c.SetReadDeadline(time.Now().Add(patience)); err != nil {
		return nil, err
	}
	return c.next()
}

// next is read for as long as it takes.
func (c *conn) next() ([]byte, error) {
	size := 0
	for n := 2; size == 0; n++ {
		head, err := c.in.Peek(n)
		if err != nil {
			return nil, err
		}
		if size, err = wire.Size(head); err != nil {
			return nil, err
		}
	}
	p := make([]byte, size)
	_, err := io.ReadFull(c.in, p)
	return p, err
}

// want gives the next packet, which must be of a type.
func (c *conn) want(n *node, kind byte) []byte {
	t := n.cluster.t
	t.Helper()
	p, err := c.read()
	if err != nil || p[0]>>4 != kind {
		t.Fatalf("got % x, %v, want a packet of type %d", p[:min(len(p), 40)], err, kind)
	}
	return p
}

func (c *conn) subscribe(n *node, filter string, qos byte) {
	n.cluster.t.Helper()
	check(n.cluster.t, c.send(wire.AppendSubscribe(nil, wire.V5, &wire.Subscribe{PacketID: 1, Filters: []wire.Filter{{Filter: filter, Options: qos}}})))
	c.want(n, wire.TypeSuback)
}

func (c *conn) send(p []byte) error {
	_, err := c.Write(p)
	return err
}

func (c *conn) ack(kind byte, id uint16) error {
	return c.send(wire.AppendAck(nil, wire.V5, kind, id, 0, ""))
}

// message is a PUBLISH as the client gets it.
type message struct {
	topic, payload string
	qos            byte
	id             uint16
	dup            bool
}

func parse(p []byte) (message, error) {
	var pk wire.Publish
	if err := wire.DecodePublish(p, wire.V5, &pk); err != nil {
		return message{}, err
	}
	return message{string(pk.Topic), string(pk.Payload), pk.QoS, pk.PacketID, p[0]&8 != 0}, nil
}

// packetID is that of an acknowledgement.
func packetID(p []byte) uint16 { return binary.BigEndian.Uint16(p[2:]) }

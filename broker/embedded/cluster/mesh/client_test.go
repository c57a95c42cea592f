package mesh_test

import (
	"signalbox/broker/embedded/enginetest"
	"signalbox/broker/mqtt/packet"
)

// client takes messages, and acknowledges them to the end.
type client struct{ *enginetest.Client }

// connect opens a connection; with kept, of a session that is.
func (n *node) connect(id string, kept bool, change ...func(*packet.Connect)) *client {
	n.T.Helper()
	h := enginetest.Fresh(id)
	if kept {
		h = enginetest.Keeps(id)
	}
	for _, f := range change {
		f(&h)
	}
	return &client{n.Connect(h)}
}

func (c *client) unsubscribe(filter string) {
	c.T.Helper()
	c.Send(packet.AppendUnsubscribe(nil, packet.V5, &packet.Unsubscribe{PacketID: 1, Filters: []string{filter}}))
	c.Want(packet.TypeUnsuback)
}

// publish sends a message and waits for its acknowledgement, whose reason it gives.
func (c *client) publish(o packet.Outgoing) byte {
	c.T.Helper()
	c.Publish(o)
	switch o.QoS {
	case 1:
		return c.WantAck(packet.TypePuback).Reason
	case 2:
		code := c.WantAck(packet.TypePubrec).Reason
		if code < 0x80 {
			c.Ack(packet.TypePubrel, o.PacketID)
			c.Want(packet.TypePubcomp)
		}
		return code
	}
	return 0
}

// message is a PUBLISH as the client gets it.
type message struct {
	topic, payload string
	qos            byte
	retain         bool
}

// next gives the next message, and acknowledges it to the end.
func (c *client) next() message {
	c.T.Helper()
	m, ok := c.tryNext()
	if !ok {
		c.T.Fatal("wait for a message: the connection has ended")
	}
	return m
}

// tryNext is next, but answers false at the end of the connection.
func (c *client) tryNext() (message, bool) {
	for {
		p, err := c.Read()
		if err != nil {
			return message{}, false
		}
		if m, ok := c.take(p); ok {
			return m, true
		}
	}
}

// take deals with a packet and gives the message, if it is one.
func (c *client) take(p []byte) (m message, is bool) {
	switch p[0] >> 4 {
	case packet.TypePubrel:
		c.Write(packet.AppendAck(nil, packet.V5, packet.TypePubcomp, enginetest.PacketID(p), 0, "")) //nolint:errcheck // reading will tell
	case packet.TypePublish:
		var pk packet.Publish
		if err := packet.DecodePublish(p, packet.V5, &pk); err != nil {
			c.T.Errorf("PUBLISH % x: %v", p, err)
		}
		if pk.QoS > 0 {
			c.Write(packet.AppendAck(nil, packet.V5, packet.TypePuback+pk.QoS-1, pk.PacketID, 0, "")) //nolint:errcheck // reading will tell
		}
		return message{string(pk.Topic), string(pk.Payload), pk.QoS, p[0]&1 != 0}, true
	}
	return m, false
}

// drained sees to it that no message is left.
func (c *client) drained() {
	c.Send([]byte{packet.TypePingreq << 4, 0})
	for {
		p, err := c.Read()
		if err != nil {
			c.T.Errorf("wait for PINGRESP: %v", err)
			return
		}
		if p[0]>>4 == packet.TypePingresp {
			return
		}
		if m, is := c.take(p); is {
			c.T.Errorf("there is one message more: %v", m)
		}
	}
}

// until takes messages until a packet of another type comes.
func (c *client) until(kind byte, each func(message)) {
	c.T.Helper()
	for {
		p, err := c.Read()
		check(c.T, err)
		if p[0]>>4 == kind {
			return
		}
		if m, is := c.take(p); is {
			each(m)
		}
	}
}

// silent tells that nothing has come: what is asked for now is answered first.
func (c *client) silent() {
	c.T.Helper()
	c.Send(packet.AppendPingreq(nil))
	c.Want(packet.TypePingresp)
}

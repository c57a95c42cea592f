package mesh_test

import (
	"signalbox/broker/embedded/enginetest"
	"signalbox/broker/mqtt/packet"
)

// client acknowledges the messages that it receives.
type client struct{ *enginetest.Client }

// connect opens a connection; with kept, its session is persistent.
func (n *node) connect(id string, kept bool, change ...func(*packet.Connect)) *client {
	n.T.Helper()
	h := enginetest.Clean(id)
	if kept {
		h = enginetest.Persistent(id)
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

// publish sends a message, waits for its acknowledgement and returns the reason code.
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

// message is a received PUBLISH.
type message struct {
	topic, payload string
	qos            byte
	retain         bool
}

// next returns the next message after acknowledging it.
func (c *client) next() message {
	c.T.Helper()
	m, ok := c.tryNext()
	if !ok {
		c.T.Fatal("wait for a message: the connection has ended")
	}
	return m
}

// tryNext is next, but returns false at the end of the connection.
func (c *client) tryNext() (message, bool) {
	for {
		p, err := c.Read()
		if err != nil {
			return message{}, false
		}
		if m, ok := c.handle(p); ok {
			return m, true
		}
	}
}

// handle acknowledges a packet, and returns the message if it is one.
func (c *client) handle(p []byte) (m message, is bool) {
	switch p[0] >> 4 {
	case packet.TypePubrel:
		c.Write(packet.AppendAck(nil, packet.V5, packet.TypePubcomp, enginetest.PacketID(p), 0, "")) //nolint:errcheck // reading fails as well
	case packet.TypePublish:
		var pk packet.Publish
		if err := packet.DecodePublish(p, packet.V5, &pk); err != nil {
			c.T.Errorf("PUBLISH % x: %v", p, err)
		}
		if pk.QoS > 0 {
			c.Write(packet.AppendAck(nil, packet.V5, packet.TypePuback+pk.QoS-1, pk.PacketID, 0, "")) //nolint:errcheck // reading fails as well
		}
		return message{string(pk.Topic), string(pk.Payload), pk.QoS, p[0]&1 != 0}, true
	}
	return m, false
}

// expectNoMessages fails the test if a message is left.
func (c *client) expectNoMessages() {
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
		if m, is := c.handle(p); is {
			c.T.Errorf("unexpected message: %v", m)
		}
	}
}

// until handles messages until a packet of another type comes.
func (c *client) until(kind byte, each func(message)) {
	c.T.Helper()
	for {
		p, err := c.Read()
		check(c.T, err)
		if p[0]>>4 == kind {
			return
		}
		if m, is := c.handle(p); is {
			each(m)
		}
	}
}

// expectNothing fails the test unless PINGRESP is the next packet.
func (c *client) expectNothing() {
	c.T.Helper()
	c.Send(packet.AppendPingreq(nil))
	c.Want(packet.TypePingresp)
}

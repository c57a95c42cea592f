package mesh_test

import (
	"signalbox/broker/embedded/enginetest"
	"signalbox/broker/wire"
)

// client takes messages, and acknowledges them to the end.
type client struct{ *enginetest.Client }

// connect opens a connection; with kept, of a session that is.
func (n *node) connect(id string, kept bool, change ...func(*wire.Connect)) *client {
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
	c.Send(wire.AppendUnsubscribe(nil, wire.V5, &wire.Unsubscribe{PacketID: 1, Filters: []string{filter}}))
	c.Want(wire.TypeUnsuback)
}

// publish sends a message and waits for its acknowledgement, whose reason it gives.
func (c *client) publish(o wire.Outgoing) byte {
	c.T.Helper()
	c.Publish(o)
	switch o.QoS {
	case 1:
		return c.WantAck(wire.TypePuback).Reason
	case 2:
		code := c.WantAck(wire.TypePubrec).Reason
		if code < 0x80 {
			c.Ack(wire.TypePubrel, o.PacketID)
			c.Want(wire.TypePubcomp)
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
	case wire.TypePubrel:
		c.Write(wire.AppendAck(nil, wire.V5, wire.TypePubcomp, enginetest.PacketID(p), 0, "")) //nolint:errcheck // reading will tell
	case wire.TypePublish:
		var pk wire.Publish
		if err := wire.DecodePublish(p, wire.V5, &pk); err != nil {
			c.T.Errorf("PUBLISH % x: %v", p, err)
		}
		if pk.QoS > 0 {
			c.Write(wire.AppendAck(nil, wire.V5, wire.TypePuback+pk.QoS-1, pk.PacketID, 0, "")) //nolint:errcheck // reading will tell
		}
		return message{string(pk.Topic), string(pk.Payload), pk.QoS, p[0]&1 != 0}, true
	}
	return m, false
}

// drained sees to it that no message is left.
func (c *client) drained() {
	c.Send([]byte{wire.TypePingreq << 4, 0})
	for {
		p, err := c.Read()
		if err != nil {
			c.T.Errorf("wait for PINGRESP: %v", err)
			return
		}
		if p[0]>>4 == wire.TypePingresp {
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
	c.Send(wire.AppendPingreq(nil))
	c.Want(wire.TypePingresp)
}

package engine

import "signalbox/broker/mqtt/packet"

// Request is a message to a control API, from a client with the right to send it.
type Request struct {
	conn    *Conn
	Topic   string
	Payload []byte
}

// Client returns the requester.
func (r *Request) Client() ClientEvent { return r.conn.event() }

// AdminOnly reports whether the requester came over a listener for administrators
// only.
func (r *Request) AdminOnly() bool { return r.conn.socket.AdminOnly }

// Reply sends a message to the requester only, subscribed or not, if it has the right to
// receive it.
func (r *Request) Reply(topic string, payload []byte) {
	s := r.conn.session
	if !s.isAllowed(Receive, topic) {
		return
	}
	if c := s.accept(outgoingMessage{message: &Message{Topic: topic, Payload: payload, CreatedAt: s.engine.now()}}).flush; c != nil {
		c.flush()
	}
}

// request acknowledges a message to a control API and handles it on this goroutine: the
// requester's connection waits for the response, no other connection does.
func (c *Conn) request(pk *packet.Publish, topic string) {
	payload := append([]byte{}, pk.Payload...)
	switch pk.QoS {
	case 1:
		c.acknowledgeRequest(packet.TypePuback, pk.PacketID)
	case 2:
		found, _ := c.session.receive(pk.PacketID)
		if found == isTooMuch {
			c.refuseExcess(pk)
			return
		}
		c.acknowledgeRequest(packet.TypePubrec, pk.PacketID)
		if found == isRepeated {
			return
		}
	}
	c.complete()
	c.engine.control(&Request{conn: c, Topic: topic, Payload: payload})
}

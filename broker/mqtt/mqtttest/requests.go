package mqtttest

import "signalbox/broker/mqtt/mqtttest/packet"

// nextID returns the packet identifier of a request.
func (c *Client) nextID() uint16 {
	if c.PacketID++; c.PacketID == 0 {
		c.PacketID = 1
	}
	return c.PacketID
}

// Subscribe subscribes to filters with default options. It returns the codes of the SUBACK.
func (c *Client) Subscribe(qos byte, filters ...string) []byte {
	c.T.Helper()
	all := make([]packet.Filter, len(filters))
	for i, f := range filters {
		all[i] = packet.Filter{Filter: f, QoS: qos}
	}
	return c.SubscribeTo(all...)
}

// SubscribeTo returns the codes of the SUBACK.
func (c *Client) SubscribeTo(filters ...packet.Filter) []byte {
	c.T.Helper()
	c.Send(packet.Packet{Type: packet.Subscribe, ID: c.nextID(), Filters: filters})
	return c.Want(packet.Suback).Reasons
}

// Unsubscribe returns the codes of the UNSUBACK, which has none before MQTT 5.
func (c *Client) Unsubscribe(filters ...string) []byte {
	c.T.Helper()
	pk := packet.Packet{Type: packet.Unsubscribe, ID: c.nextID()}
	for _, f := range filters {
		pk.Filters = append(pk.Filters, packet.Filter{Filter: f})
	}
	c.Send(pk)
	return c.Want(packet.Unsuback).Reasons
}

// Message returns a PUBLISH, with the next packet identifier.
func (c *Client) Message(topic, payload string, qos byte, retain bool) packet.Packet {
	pk := packet.Packet{Type: packet.Publish, Topic: topic, Payload: []byte(payload), QoS: qos, Retain: retain}
	if qos > 0 {
		pk.ID = c.nextID()
	}
	return pk
}

// StartPublish sends a message and returns the first packet that acknowledges it; at QoS 0
// that is the response to a following PINGREQ. QoS 2 is not completed.
func (c *Client) StartPublish(topic, payload string, qos byte, options ...Option) packet.Packet {
	c.T.Helper()
	pk := c.Message(topic, payload, qos, false)
	for _, o := range options {
		o(&pk)
	}
	c.Send(pk)
	switch qos {
	case 1:
		return c.Want(packet.Puback)
	case 2:
		return c.Want(packet.Pubrec)
	}
	return c.Ping()
}

// Publish sends a message and completes its acknowledgement. It returns the reason code of
// the first packet that acknowledges it, 0 at QoS 0.
func (c *Client) Publish(topic, payload string, qos byte, options ...Option) byte {
	c.T.Helper()
	ack := c.StartPublish(topic, payload, qos, options...)
	if qos == 2 && ack.Reason < 0x80 {
		c.Release(ack.ID)
	}
	return ack.Reason
}

// Release completes a message of QoS 2.
func (c *Client) Release(id uint16) packet.Packet {
	c.T.Helper()
	c.Acknowledge(packet.Pubrel, id)
	return c.Want(packet.Pubcomp)
}

// Acknowledge sends a packet that has only a packet identifier.
func (c *Client) Acknowledge(packetType byte, id uint16) {
	c.T.Helper()
	c.Send(packet.Packet{Type: packetType, ID: id})
}

// Ping returns when the broker has processed what was sent before.
func (c *Client) Ping() packet.Packet {
	c.T.Helper()
	c.Send(packet.Packet{Type: packet.Pingreq})
	return c.Want(packet.Pingresp)
}

// Settled returns the topics of the messages that arrive until the broker has processed
// everything that was sent to it; retained ones are queued by then.
func (c *Client) Settled() []string {
	c.T.Helper()
	c.Send(packet.Packet{Type: packet.Pingreq})
	topics := []string{}
	for {
		pk, err := c.Next()
		switch {
		case err != nil:
			c.T.Fatal(err)
		case pk.Type == packet.Pingresp:
			return topics
		case pk.Type == packet.Publish:
			topics = append(topics, pk.Topic)
		}
	}
}

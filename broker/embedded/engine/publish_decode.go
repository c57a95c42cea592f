package engine

import (
	"bytes"

	"signalbox/broker/mqtt/packet"
)

// Step 1 of a publish: decode. It decodes the packet, counts it towards Receive Maximum, and
// finds its topic and route.

// decode decodes a PUBLISH into pk and returns the route of its topic: a new one, or the
// cached one, which may be out of date.
func (c *Conn) decode(p []byte, pk *packet.Publish) (*route, error) {
	if err := packet.DecodePublish(p, c.version, pk); err != nil {
		return nil, err
	}
	if err := c.countIncoming(pk); err != nil {
		return nil, err
	}
	if pk.HasAlias {
		if err := c.alias(pk); err != nil {
			return nil, err
		}
	}
	r := c.in.known[string(pk.Topic)]
	if r == nil {
		topic := string(pk.Topic)
		if !c.engine.validDepth(topic) {
			return nil, &packet.Error{Reason: packet.ReasonTopicNameInvalid, Text: "topic too long or too deep"}
		}
		r = &route{topic: topic}
	}
	m := c.engine.meters
	m.publishesReceived.Add(1)
	m.payloadReceived.Add(int64(len(pk.Payload)))
	c.session.counts.published.Add(1)
	c.session.counts.publishedBytes.Add(int64(len(pk.Payload)))
	return r, nil
}

// countIncoming counts a message towards the Receive Maximum of the broker
// [MQTT-3.3.4-9].
func (c *Conn) countIncoming(pk *packet.Publish) error {
	if pk.QoS == 0 {
		return nil
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.version >= 5 && c.quota >= int(c.engine.config.ReceiveMaximum) {
		return &packet.Error{Reason: packet.ReasonReceiveMaximumExceeded, Text: "receive maximum exceeded"}
	}
	c.quota++
	return nil
}

// alias replaces a topic alias by its topic, or records it [MQTT-3.3.2-7]
// [MQTT-3.3.2-12].
func (c *Conn) alias(pk *packet.Publish) error {
	if pk.Alias == 0 || pk.Alias > c.engine.config.TopicAliasMaximum {
		return &packet.Error{Reason: packet.ReasonTopicAliasInvalid, Text: "topic alias out of range"}
	}
	if len(pk.Topic) > 0 {
		if c.in.aliases == nil {
			c.in.aliases = map[uint16]string{}
		}
		c.in.aliases[pk.Alias] = string(pk.Topic)
		c.in.controls = c.in.controls || bytes.HasPrefix(pk.Topic, []byte(controlPrefix))
		return nil
	}
	topic, ok := c.in.aliases[pk.Alias]
	if !ok {
		return &packet.Error{Reason: packet.ReasonProtocolError, Text: "topic alias without a topic"}
	}
	pk.Topic = []byte(topic)
	return nil
}

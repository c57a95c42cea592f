package packet

import "slices"

// maxBuffer bounds the buffer that a Publish reuses, in bytes.
const maxBuffer = 1024

// Publish is a PUBLISH from a client.
type Publish struct {
	Dup, Retain    bool
	QoS            byte
	PacketID       uint16 // 0 at QoS 0
	Topic, Payload []byte // Topic is empty if Alias replaces it
	Alias          uint16
	HasAlias       bool
	Expiry         uint32 // seconds
	HasExpiry      bool
	Properties     []byte // to forward, encoded, without their length, alias and expiry

	buf []byte // holds Properties that were not contiguous
}

// DecodePublish decodes a PUBLISH. Its slices refer to p or to into, and are valid until
// either is reused. It allocates only if the properties to forward are not contiguous and
// exceed the buffer of into.
//
// A payload that is announced as UTF-8 is not checked [MQTT-3.3.2-4].
func DecodePublish(p []byte, version byte, into *Publish) error {
	*into = Publish{buf: into.buf}
	if cap(into.buf) > maxBuffer {
		into.buf = nil
	}
	c := openPacket(p, TypePublish)
	if c.fault == nil {
		c.check(into.flags(p[0]&0x0f, version))
	}
	into.Topic = c.text()
	if into.QoS > 0 {
		into.PacketID = c.packetID()
	}
	if version == V5 {
		into.properties(&c)
	}
	if len(into.Topic) > 0 || !into.HasAlias {
		c.check(topicFault(into.Topic))
	}
	into.Payload = slices.Clip(c.rest)
	return asError(c.fault)
}

// flags decodes the flags of the fixed header [MQTT-3.3.1-2] [MQTT-3.3.1-4].
func (m *Publish) flags(flags, version byte) *Error {
	m.Dup, m.QoS, m.Retain = flags&8 != 0, flags>>1&3, flags&1 != 0
	switch {
	case m.QoS == 3:
		return errQoS
	case m.QoS == 0 && m.Dup && version != V31:
		return errDup
	}
	return nil
}

// properties decodes the properties [MQTT 3.3.2.3].
func (m *Publish) properties(c *cursor) {
	w := c.properties(inPublish)
	if len(w.rest) == 0 {
		return
	}
	kept := forwarded{buf: m.buf}
	for p, ok := w.next(); ok; p, ok = w.next() {
		switch p.id {
		case propTopicAlias:
			m.Alias, m.HasAlias = uint16(p.number), true
		case propMessageExpiry:
			m.Expiry, m.HasExpiry = p.number, true
		case propSubscriptionID: // [MQTT-3.3.4-6]
			w.fail(errSubID)
		default:
			kept.add(p.raw)
		}
	}
	c.check(w.fault)
	m.Properties, m.buf = slices.Clip(kept.raw), kept.buf
}

// PublishTopic returns the topic of an encoded PUBLISH, empty if an alias stands for it.
func PublishTopic(p []byte) ([]byte, error) {
	c := openPacket(p, TypePublish)
	topic := c.binary()
	return topic, asError(c.fault)
}

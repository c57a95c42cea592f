package packet

import "slices"

// maxOwn is how much room for properties a Publish keeps, in bytes.
const maxOwn = 1024

// Publish is a PUBLISH that a client sent.
type Publish struct {
	Dup, Retain    bool
	QoS            byte
	PacketID       uint16 // 0 at QoS 0
	Topic, Payload []byte // Topic is empty where Alias stands for it
	Alias          uint16
	HasAlias       bool
	Expiry         uint32 // seconds
	HasExpiry      bool
	Properties     []byte // those to pass on, encoded, without their length; no alias and no expiry among them

	own []byte // holds Properties that did not stand side by side
}

// DecodePublish decodes a PUBLISH. Its slices are parts of p, or of into, and
// good until either is used again. It allocates nothing, but where properties to
// pass on stand apart and are more than into has had room for before.
//
// That a payload announced as UTF-8 is such is not checked [MQTT-3.3.2-4].
func DecodePublish(p []byte, version byte, into *Publish) error {
	*into = Publish{own: into.own}
	if cap(into.own) > maxOwn {
		into.own = nil
	}
	c := open(p, TypePublish)
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

// flags reads the flags of the fixed header [MQTT-3.3.1-2] [MQTT-3.3.1-4].
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

// properties reads the properties [MQTT 3.3.2.3].
func (m *Publish) properties(c *cursor) {
	w := c.properties(inPublish)
	if len(w.rest) == 0 {
		return
	}
	kept := passedOn{own: m.own}
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
	m.Properties, m.own = slices.Clip(kept.raw), kept.own
}

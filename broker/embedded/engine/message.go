package engine

import (
	"sync/atomic"
	"time"

	"signalbox/broker/mqtt/packet"
)

// Message is an application message. All recipients share it; only its encodings are added
// after it was made.
type Message struct {
	ID         uint64 // in the store; 0 if it is not stored
	Topic      string
	Payload    []byte
	Properties []byte // those that are forwarded, as encoded in MQTT 5, without their length
	QoS        byte   // as published
	Retain     bool   // as published
	CreatedAt  int64  // epoch milliseconds
	ExpiresAt  int64  // epoch milliseconds, 0 for never
	Publisher  string // client id; "" for the broker itself
	Username   string // of the publisher
	Stamp      uint64 // the same at all nodes; 0 if it was not forwarded from node to node

	serial atomic.Uint64 // assigned by the first call of Serial

	frames [frameKinds]atomic.Pointer[[]byte] // encoded by the first call of frame
}

// frameKinds is the number of shared encodings of a message: for MQTT 3 or 5, without or
// with a packet identifier.
const frameKinds = 4

// referAbove is the size of a packet, in bytes, above which it is written from the shared
// encoding instead of being copied into the batch.
const referAbove = 16 << 10

// size returns the size of the message for the bounds of queues.
func (m *Message) size() int { return len(m.Topic) + len(m.Payload) + len(m.Properties) }

// expired reports whether the message must not be delivered any more [MQTT-3.3.2-5].
func (m *Message) expired(now int64) bool { return m.ExpiresAt != 0 && now >= m.ExpiresAt }

// remaining returns the expiry interval to be sent, in seconds [MQTT-3.3.2-6].
func (m *Message) remaining(now int64) uint32 {
	return uint32(max((m.ExpiresAt-now+999)/1000, 1))
}

// SetExpiry makes the message expire after an interval in seconds.
func (m *Message) SetExpiry(seconds uint32) {
	m.ExpiresAt = m.CreatedAt + int64(seconds)*time.Second.Milliseconds()
}

// Postpone moves the times of a message that was not published yet, in milliseconds.
func (m *Message) Postpone(by int64) {
	m.CreatedAt += by
	if m.ExpiresAt != 0 {
		m.ExpiresAt += by
	}
}

// clone returns a copy of the message, for a recipient that was chosen later. The copy gets
// an ID of its own.
func (m *Message) clone() *Message {
	return &Message{
		Topic: m.Topic, Payload: m.Payload, Properties: m.Properties, QoS: m.QoS, Retain: m.Retain,
		CreatedAt: m.CreatedAt, ExpiresAt: m.ExpiresAt, Publisher: m.Publisher, Username: m.Username,
		Stamp: m.Stamp,
	}
}

// frame returns the shared encoding for a version, with RETAIN and DUP 0. For QoS 1 and 2
// the packet identifier and QoS are to be filled in.
func (m *Message) frame(version byte, identified bool) []byte {
	kind := 0
	if version >= 5 {
		kind = 2
	}
	o := packet.Outgoing{Topic: m.Topic, Payload: m.Payload, Properties: m.Properties}
	if identified {
		kind++
		o.QoS, o.PacketID = 1, 1
	}
	if f := m.frames[kind].Load(); f != nil {
		return *f
	}
	f := packet.AppendPublish(make([]byte, 0, packet.PublishSize(version, &o)), version, &o)
	m.frames[kind].Store(&f)
	return f
}

// delivery is a message as it is sent to one client.
type delivery struct {
	message          *Message
	extra            *extra
	id               uint16
	qos              byte
	dup              bool
	retain           bool
	alias            uint16 // 0 for none
	bridgeProperties []byte // properties for a bridge in place of the message's; nil for the message's
	known            bool   // the client has the topic of the alias
}

// shared reports whether the delivery has the shared encoding, except for flags and packet
// identifier.
func (d *delivery) shared(version byte) bool {
	return version < 5 || d.bridgeProperties == nil && d.alias == 0 && d.message.ExpiresAt == 0 && (d.extra == nil || len(d.extra.ids) == 0)
}

// flags returns the first byte of the packet [MQTT-3.3.1].
func (d *delivery) flags() byte {
	b := packet.TypePublish<<4 | d.qos<<1
	if d.dup {
		b |= 1 << 3
	}
	if d.retain {
		b |= 1
	}
	return b
}

// packet returns the packet for encoding it for one client only.
func (d *delivery) packet(version byte, now int64) packet.Outgoing {
	m := d.message
	o := packet.Outgoing{
		Topic: m.Topic, Payload: m.Payload, Properties: m.Properties,
		QoS: d.qos, Dup: d.dup, Retain: d.retain, PacketID: d.id,
	}
	if version < 5 {
		return o
	}
	if m.ExpiresAt != 0 {
		o.HasExpiry, o.Expiry = true, m.remaining(now)
	}
	if d.bridgeProperties != nil {
		o.Properties = d.bridgeProperties
	}
	o.Alias, o.OmitTopic = d.alias, d.known
	if d.extra != nil {
		o.SubscriptionIDs = d.extra.ids
	}
	return o
}

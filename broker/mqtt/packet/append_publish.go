package packet

import "encoding/binary"

// Outgoing is a PUBLISH to be sent.
type Outgoing struct {
	Topic           string
	Payload         []byte
	Properties      []byte // to forward, encoded, without their length; see Publish
	QoS             byte
	Dup, Retain     bool
	PacketID        uint16 // ignored at QoS 0
	Expiry          uint32 // seconds
	HasExpiry       bool
	SubscriptionIDs []uint32
	Alias           uint16 // 0 for none
	OmitTopic       bool   // Alias replaces the topic
}

// PublishSize returns the length of the whole packet, for the receiver's Maximum Packet Size
// [MQTT-3.1.2-24].
func PublishSize(version byte, o *Outgoing) int {
	n := o.remaining(version)
	return 1 + varintLen(n) + n
}

// remaining returns the remaining length.
func (o *Outgoing) remaining(version byte) int {
	n := 2 + len(o.topic()) + len(o.Payload)
	if o.QoS > 0 {
		n += 2
	}
	if version == V5 {
		properties := o.propertyLen()
		n += varintLen(properties) + properties
	}
	return n
}

func (o *Outgoing) topic() string {
	if o.OmitTopic {
		return ""
	}
	return o.Topic
}

func (o *Outgoing) propertyLen() int {
	n := len(o.Properties)
	for _, id := range o.SubscriptionIDs {
		n += 1 + varintLen(int(id))
	}
	if o.HasExpiry {
		n += 5
	}
	if o.Alias > 0 {
		n += 3
	}
	return n
}

// AppendPublish appends a PUBLISH.
func AppendPublish(dst []byte, version byte, o *Outgoing) []byte {
	return append(AppendPublishHead(dst, version, o), o.Payload...)
}

// AppendPublishHead appends a PUBLISH without its payload.
func AppendPublishHead(dst []byte, version byte, o *Outgoing) []byte {
	dst = append(dst, TypePublish<<4|o.flags())
	dst = appendVarint(dst, uint32(o.remaining(version)))
	dst = appendText(dst, o.topic())
	if o.QoS > 0 {
		dst = binary.BigEndian.AppendUint16(dst, o.PacketID)
	}
	if version == V5 {
		dst = o.appendProperties(dst)
	}
	return dst
}

func (o *Outgoing) flags() byte {
	flags := o.QoS << 1
	if o.Dup {
		flags |= 8
	}
	if o.Retain {
		flags |= 1
	}
	return flags
}

// appendProperties appends the properties and their length in Mosquitto's order: subscription
// identifiers, forwarded ones in the publisher's order [MQTT-3.3.2-18], expiry.
func (o *Outgoing) appendProperties(dst []byte) []byte {
	dst = appendVarint(dst, uint32(o.propertyLen()))
	for _, id := range o.SubscriptionIDs {
		dst = appendVarint(append(dst, propSubscriptionID), id)
	}
	dst = append(dst, o.Properties...)
	if o.HasExpiry {
		dst = appendProperty32(dst, propMessageExpiry, o.Expiry)
	}
	return appendNonZero16(dst, propTopicAlias, o.Alias)
}

// PacketIDOffset returns the offset of the packet identifier in an encoded PUBLISH above QoS
// 0, so that one encoding can be sent to many clients.
func PacketIDOffset(packet []byte) int {
	at := 2 // behind the first byte and the last of the length
	for packet[at-1] >= 0x80 {
		at++
	}
	return at + 2 + int(binary.BigEndian.Uint16(packet[at:]))
}

package conformance

import (
	"encoding/binary"
)

// The types of control packets [MQTT-2.1.2], as the high half of the first byte.
const (
	typeConnect     byte = 0x10
	typeConnack     byte = 0x20
	typePublish     byte = 0x30
	typePuback      byte = 0x40
	typePubrec      byte = 0x50
	typePubrel      byte = 0x60
	typePubcomp     byte = 0x70
	typeSubscribe   byte = 0x80
	typeSuback      byte = 0x90
	typeUnsubscribe byte = 0xa0
	typeUnsuback    byte = 0xb0
	typePingreq     byte = 0xc0
	typePingresp    byte = 0xd0
	typeDisconnect  byte = 0xe0
	typeAuth        byte = 0xf0
)

// The properties of MQTT 5.
const (
	payloadFormat          byte = 0x01
	messageExpiry          byte = 0x02
	contentType            byte = 0x03
	responseTopic          byte = 0x08
	correlationData        byte = 0x09
	subscriptionIdentifier byte = 0x0b
	sessionExpiry          byte = 0x11
	assignedClientID       byte = 0x12
	serverKeepAlive        byte = 0x13
	authMethod             byte = 0x15
	authData               byte = 0x16
	requestProblemInfo     byte = 0x17
	willDelay              byte = 0x18
	requestResponseInfo    byte = 0x19
	responseInformation    byte = 0x1a
	serverReference        byte = 0x1c
	reasonString           byte = 0x1f
	receiveMaximum         byte = 0x21
	topicAliasMaximum      byte = 0x22
	topicAlias             byte = 0x23
	maximumQoS             byte = 0x24
	retainAvailable        byte = 0x25
	userProperty           byte = 0x26
	maximumPacketSize      byte = 0x27
	wildcardAvailable      byte = 0x28
	subscriptionIDsAllowed byte = 0x29
	sharedAvailable        byte = 0x2a
)

// The reason codes that tests name.
const (
	success                byte = 0x00
	disconnectWithWill     byte = 0x04
	noMatchingSubscribers  byte = 0x10
	noSubscriptionExisted  byte = 0x11
	unspecifiedError       byte = 0x80
	malformedPacket        byte = 0x81
	protocolError          byte = 0x82
	unsupportedVersion     byte = 0x84
	badClientID            byte = 0x85
	badCredentials         byte = 0x86
	notAuthorized          byte = 0x87
	serverShuttingDown     byte = 0x8b
	badAuthMethod          byte = 0x8c
	keepAliveTimeout       byte = 0x8d
	sessionTakenOver       byte = 0x8e
	filterInvalid          byte = 0x8f
	topicInvalid           byte = 0x90
	idInUse                byte = 0x91
	idNotFound             byte = 0x92
	receiveMaximumExceeded byte = 0x93
	topicAliasInvalid      byte = 0x94
	packetTooLarge         byte = 0x95
	payloadFormatInvalid   byte = 0x99
	sharedNotSupported     byte = 0x9e
)

// cat joins pieces into one.
func cat(pieces ...[]byte) (all []byte) {
	for _, p := range pieces {
		all = append(all, p...)
	}
	return all
}

// u16 encodes a two-byte integer, text a string, varint a variable byte integer (a uvarint
// in Go).
func u16(n uint16) []byte                { return binary.BigEndian.AppendUint16(nil, n) }
func u32(n uint32) []byte                { return binary.BigEndian.AppendUint32(nil, n) }
func text[T string | []byte](s T) []byte { return append(u16(uint16(len(s))), s...) }
func varint(n int) []byte                { return binary.AppendUvarint(nil, uint64(n)) }

// frame prepends the fixed header to a body.
func frame(first byte, body ...[]byte) []byte {
	b := cat(body...)
	return cat([]byte{first}, varint(len(b)), b)
}

// The properties, by the form of their values. Several in a packet are joined by cat.
func propByte(id, v byte) []byte        { return []byte{id, v} }
func propU16(id byte, v uint16) []byte  { return cat([]byte{id}, u16(v)) }
func propU32(id byte, v uint32) []byte  { return cat([]byte{id}, u32(v)) }
func propVarint(id byte, v int) []byte  { return cat([]byte{id}, varint(v)) }
func propText(id byte, v string) []byte { return cat([]byte{id}, text(v)) }
func user(name, value string) []byte    { return cat([]byte{userProperty}, text(name), text(value)) }

// withLength encodes a packet's property part, which MQTT before 5 does not have.
func withLength(version byte, props []byte) []byte {
	if version < v5 {
		return nil
	}
	return cat(varint(len(props)), props)
}

// connect is a CONNECT. Its zero value starts clean, without keep-alive.
type connect struct {
	version   byte // in whose form it is encoded; the scene's if 0
	level     byte // the protocol level; that of version if 0
	clientID  string
	keep      bool // does not start clean
	keepAlive uint16
	username  string
	password  string
	will      *will
	props     []byte
}

// will is the Will of a CONNECT.
type will struct {
	topic   string
	payload string
	qos     byte
	retain  bool
	props   []byte
}

func (c connect) bytes() []byte {
	flags, level := byte(0), c.level
	if level == 0 {
		level = c.version
	}
	if !c.keep {
		flags |= 0x02
	}
	body := text(c.clientID)
	if w := c.will; w != nil {
		flags |= 0x04 | w.qos<<3 | bit(w.retain, 0x20)
		body = cat(body, withLength(c.version, w.props), text(w.topic), text(w.payload))
	}
	if c.username != "" {
		flags |= 0x80
		body = cat(body, text(c.username))
	}
	if c.password != "" {
		flags |= 0x40
		body = cat(body, text(c.password))
	}
	return frame(typeConnect, text(protocolName(c.version)), []byte{level, flags}, u16(c.keepAlive),
		withLength(c.version, c.props), body)
}

// protocolName is what a CONNECT of a version begins with [MQTT-3.1.2-1].
func protocolName(version byte) string {
	if version == v31 {
		return "MQIsdp"
	}
	return "MQTT"
}

func bit(set bool, value byte) byte {
	if set {
		return value
	}
	return 0
}

// publish is a PUBLISH, in either direction.
type publish struct {
	topic   string
	payload string
	qos     byte
	id      uint16 // where qos > 0
	dup     bool
	retain  bool
	props   []byte
}

func (p publish) bytes(version byte) []byte {
	first := typePublish | bit(p.dup, 0x08) | p.qos<<1 | bit(p.retain, 0x01)
	var id []byte
	if p.qos > 0 {
		id = u16(p.id)
	}
	return frame(first, text(p.topic), id, withLength(version, p.props), []byte(p.payload))
}

// ack encodes a PUBACK, PUBREC, PUBREL or PUBCOMP without properties. Reason 0 is omitted,
// and so are others before MQTT 5.
func ack(version, kind byte, id uint16, reason byte) []byte {
	if kind == typePubrel {
		kind |= 0x02
	}
	if version < v5 || reason == success {
		return frame(kind, u16(id))
	}
	return frame(kind, u16(id), []byte{reason})
}

// filter is an entry of a SUBSCRIBE: a topic filter with its options byte.
type filter struct {
	name    string
	options byte
}

// The subscription options of MQTT 5.
const (
	noLocal           byte = 0x04
	retainAsPublished byte = 0x08
	retainIfNew       byte = 0x10
	retainNever       byte = 0x20
)

func subscribe(version byte, id uint16, props []byte, filters ...filter) []byte {
	var list []byte
	for _, f := range filters {
		list = cat(list, text(f.name), []byte{f.options})
	}
	return frame(typeSubscribe|0x02, u16(id), withLength(version, props), list)
}

func unsubscribe(version byte, id uint16, props []byte, filters ...string) []byte {
	var list []byte
	for _, f := range filters {
		list = cat(list, text(f))
	}
	return frame(typeUnsubscribe|0x02, u16(id), withLength(version, props), list)
}

func suback(version byte, id uint16, codes ...byte) []byte {
	return frame(typeSuback, u16(id), withLength(version, nil), codes)
}

// unsuback encodes an UNSUBACK, with codes in MQTT 5 only.
func unsuback(version byte, id uint16, codes ...byte) []byte {
	if version < v5 {
		return frame(typeUnsuback, u16(id))
	}
	return frame(typeUnsuback, u16(id), withLength(version, nil), codes)
}

func pingreq() []byte  { return []byte{typePingreq, 0} }
func pingresp() []byte { return []byte{typePingresp, 0} }

// disconnect encodes a DISCONNECT, which before MQTT 5 has neither reason nor properties.
func disconnect(version, reason byte, props []byte) []byte {
	switch {
	case version < v5 || reason == success && props == nil:
		return frame(typeDisconnect)
	case props == nil:
		return frame(typeDisconnect, []byte{reason})
	}
	return frame(typeDisconnect, []byte{reason}, withLength(version, props))
}

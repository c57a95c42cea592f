// Package packet writes and reads the packets of MQTT for tests, and for the programs that
// load brokers. [Packet] is any packet of a client, in all versions. The functions below it
// are for programs that send many: they copy as little as possible, and of MQTT 5 they
// support what a subscriber with a persistent session needs.
//
// It must not import anything but the standard library: it is used to check the
// product, so it shares no code with it.
package packet

import "encoding/binary"

// The first bytes of packets, with the flags that they must have [MQTT-2.2.2-1].
const (
	Connect     = 0x10
	Connack     = 0x20
	Publish     = 0x30 // and flags
	Puback      = 0x40
	Pubrec      = 0x50
	Pubrel      = 0x62
	Pubcomp     = 0x70
	Subscribe   = 0x82
	Suback      = 0x90
	Unsubscribe = 0xa2
	Unsuback    = 0xb0
	Pingreq     = 0xc0
	Pingresp    = 0xd0
	Disconnect  = 0xe0
)

// Reason codes.
const (
	UnsupportedVersion3 = 0x01 // of a CONNACK before MQTT 5

	MalformedPacket      = 0x81
	NotAuthorized        = 0x87
	ServerShuttingDown   = 0x8b
	SessionTakenOver     = 0x8e
	PacketTooLarge       = 0x95
	QuotaExceeded        = 0x97
	AdministrativeAction = 0x98
)

// The flags of PUBLISH.
const (
	Retain   = 0x01
	qosShift = 1
	Dup      = 0x08
)

// Kind returns a first byte without its flags.
func Kind(first byte) byte { return first & 0xf0 }

// QoS returns the quality of service in the first byte of a PUBLISH.
func QoS(first byte) byte { return first >> qosShift & 3 }

// Login holds the parameters of CONNECT.
type Login struct {
	ClientID           string
	Username, Password string // without a username neither is sent
	Clean              bool
	KeepAlive          uint16 // seconds

	// Five requests MQTT 5, a session that never expires, and this receive maximum for
	// messages of QoS 1 and 2; 0 is MQTT 3.1.1.
	Five uint16
}

// AppendConnect appends a CONNECT.
func AppendConnect(b []byte, l Login) []byte {
	const clean, withPassword, withUsername = 0x02, 0x40, 0x80
	var flags, level byte = 0, 4
	if l.Five > 0 {
		level = 5
	}
	if l.Clean {
		flags |= clean
	}
	body := appendText(nil, "MQTT")
	if l.Username != "" {
		flags |= withUsername | withPassword
	}
	body = append(body, level, flags)
	body = binary.BigEndian.AppendUint16(body, l.KeepAlive)
	if l.Five > 0 {
		const expiry, receiveMaximum = 0x11, 0x21
		body = append(body, 8, expiry, 0xff, 0xff, 0xff, 0xff, receiveMaximum, byte(l.Five>>8), byte(l.Five))
	}
	body = appendText(body, l.ClientID)
	if l.Username != "" {
		body = appendText(appendText(body, l.Username), l.Password)
	}
	return appendPacket(b, Connect, body)
}

// AppendSubscribe appends a SUBSCRIBE with one filter.
func AppendSubscribe(b []byte, id uint16, filter string, qos byte) []byte {
	body := binary.BigEndian.AppendUint16(nil, id)
	return appendPacket(b, Subscribe, append(appendText(body, filter), qos))
}

// AppendSubscribe5 is AppendSubscribe for MQTT 5.
func AppendSubscribe5(b []byte, id uint16, filter string, qos byte) []byte {
	body := append(binary.BigEndian.AppendUint16(nil, id), 0)
	return appendPacket(b, Subscribe, append(appendText(body, filter), qos))
}

// Message is the content of a PUBLISH. Slices that were read are valid as long as the
// packet that they were read from.
type Message struct {
	Topic       []byte
	Payload     []byte
	ID          uint16 // 0 for QoS 0
	QoS         byte
	Retain, Dup bool
}

// AppendPublish appends a PUBLISH.
func AppendPublish(b []byte, m Message) []byte {
	first := Publish | m.QoS<<qosShift
	if m.Retain {
		first |= Retain
	}
	if m.Dup {
		first |= Dup
	}
	length := 2 + len(m.Topic) + len(m.Payload)
	if m.QoS > 0 {
		length += 2
	}
	b = binary.AppendUvarint(append(b, first), uint64(length)) // the encoding of MQTT's lengths is that of uvarint
	b = append(binary.BigEndian.AppendUint16(b, uint16(len(m.Topic))), m.Topic...)
	if m.QoS > 0 {
		b = binary.BigEndian.AppendUint16(b, m.ID)
	}
	return append(b, m.Payload...)
}

// AppendAck appends a packet that holds nothing but a packet identifier.
func AppendAck(b []byte, first byte, id uint16) []byte {
	return append(b, first, 2, byte(id>>8), byte(id))
}

// AppendEmpty appends a packet without a body: PINGREQ, DISCONNECT.
func AppendEmpty(b []byte, first byte) []byte { return append(b, first, 0) }

// ReadPublish decodes a PUBLISH. It returns false if the body is too short.
func ReadPublish(first byte, body []byte) (m Message, ok bool) {
	m = Message{QoS: QoS(first), Retain: first&Retain != 0, Dup: first&Dup != 0}
	if len(body) < 2 {
		return m, false
	}
	length := int(binary.BigEndian.Uint16(body))
	if body = body[2:]; len(body) < length {
		return m, false
	}
	m.Topic, body = body[:length], body[length:]
	if m.QoS > 0 {
		if len(body) < 2 {
			return m, false
		}
		m.ID, body = binary.BigEndian.Uint16(body), body[2:]
	}
	m.Payload = body
	return m, true
}

// ReadPublish5 decodes a PUBLISH of MQTT 5 and skips its properties.
func ReadPublish5(first byte, body []byte) (m Message, ok bool) {
	m, ok = ReadPublish(first, body)
	length, n := binary.Uvarint(m.Payload)
	if !ok || n <= 0 || length > uint64(len(m.Payload)-n) {
		return m, false
	}
	m.Payload = m.Payload[n+int(length):]
	return m, true
}

// ReadID returns the packet identifier at the beginning of a body, 0 if there is none.
func ReadID(body []byte) uint16 {
	if len(body) < 2 {
		return 0
	}
	return binary.BigEndian.Uint16(body)
}

func appendPacket(b []byte, first byte, body []byte) []byte {
	return append(binary.AppendUvarint(append(b, first), uint64(len(body))), body...)
}

// appendText appends a string with its length [MQTT-1.5.3-1].
func appendText(b []byte, s string) []byte {
	return append(binary.BigEndian.AppendUint16(b, uint16(len(s))), s...)
}

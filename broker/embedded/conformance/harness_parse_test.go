package conformance

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
)

// packet is a parsed packet of a broker. Fields that its type does not have are zero.
type packet struct {
	raw       []byte
	first     byte // type and flags
	present   bool // CONNACK's session present
	id        uint16
	topic     string
	payload   string
	codes     []byte // reason codes, return codes
	props     []property
	malformed error
}

// property is one of MQTT 5. Value is as encoded, without the identifier.
type property struct {
	id    byte
	value string
}

func (p packet) kind() byte { return p.first & 0xf0 }
func (p packet) qos() byte  { return p.first >> 1 & 3 }

// reason returns the only reason code of a packet.
func (p packet) reason() byte {
	if len(p.codes) == 0 {
		return success
	}
	return p.codes[0]
}

// prop returns the values of a property, in order.
func (p packet) prop(id byte) (values []string) {
	for _, q := range p.props {
		if q.id == id {
			values = append(values, q.value)
		}
	}
	return values
}

// number returns the value of a numeric property, or otherwise without it.
func (p packet) number(id byte, otherwise int) int {
	values := p.prop(id)
	if len(values) == 0 {
		return otherwise
	}
	n := 0
	for _, b := range []byte(values[0]) {
		n = n<<8 | int(b)
	}
	return n
}

// textOf returns the value of a string property.
func (p packet) textOf(id byte) string {
	values := p.prop(id)
	if len(values) == 0 {
		return ""
	}
	return values[0][2:]
}

// String contains everything that matters, so that two packets are equal if their strings
// are. The order of different properties does not matter, nor does a reason string, which a
// server may add as it likes [MQTT-3.4.2-2].
func (p packet) String() string {
	if p.malformed != nil {
		return fmt.Sprintf("malformed % x (%v)", p.raw, p.malformed)
	}
	var b strings.Builder
	fmt.Fprintf(&b, "%s flags=%x", typeNames[p.first>>4], p.first&15)
	switch p.kind() {
	case typePublish:
		fmt.Fprintf(&b, " id=%d topic=%q payload=%q", p.id, p.topic, p.payload)
	case typeConnack:
		fmt.Fprintf(&b, " present=%t codes=% x", p.present, p.codes)
	case typePingresp:
	default:
		fmt.Fprintf(&b, " id=%d codes=% x", p.id, p.codes)
	}
	props := slices.Clone(p.props)
	slices.SortStableFunc(props, func(a, b property) int { return int(a.id) - int(b.id) })
	for _, q := range props {
		if q.id != reasonString {
			fmt.Fprintf(&b, " %#02x=% x", q.id, q.value)
		}
	}
	return b.String()
}

// same reports whether two packets of one version are equal. Most have the same bytes, and
// formatting them is slow.
func same(a, b packet) bool { return bytes.Equal(a.raw, b.raw) || a.String() == b.String() }

var typeNames = [16]string{"0", "CONNECT", "CONNACK", "PUBLISH", "PUBACK", "PUBREC", "PUBREL", "PUBCOMP",
	"SUBSCRIBE", "SUBACK", "UNSUBSCRIBE", "UNSUBACK", "PINGREQ", "PINGRESP", "DISCONNECT", "AUTH"}

// readPacket reads one complete packet.
func readPacket(r *bufio.Reader) ([]byte, error) {
	first, err := r.ReadByte()
	if err != nil {
		return nil, err
	}
	length, err := readLength(r)
	if err != nil {
		return nil, err
	}
	head := cat([]byte{first}, varint(length))
	raw := append(head, make([]byte, length)...)
	_, err = io.ReadFull(r, raw[len(head):])
	return raw, err
}

// errLength is the error of an invalid remaining length.
var errLength = errors.New("a remaining length of more bytes than it needs, or than there may be")

// readLength reads a remaining length, which has four bytes at most and no more than it
// needs [MQTT-1.5.5-1].
func readLength(r *bufio.Reader) (length int, err error) {
	for i := range 4 {
		b, err := r.ReadByte()
		if err != nil {
			return 0, err
		}
		length |= int(b&0x7f) << (7 * i)
		if b < 0x80 {
			if b == 0 && i > 0 {
				return 0, errLength
			}
			return length, nil
		}
	}
	return 0, errLength
}

// cursor reads a packet's body from front to back. Past the end it returns zero values and
// records that.
type cursor struct {
	b     []byte
	short bool
}

func (c *cursor) take(n int) []byte {
	if n > len(c.b) {
		c.short, c.b = true, nil
		return make([]byte, min(n, 1<<16))
	}
	head := c.b[:n]
	c.b = c.b[n:]
	return head
}

func (c *cursor) byte() byte   { return c.take(1)[0] }
func (c *cursor) u16() uint16  { return binary.BigEndian.Uint16(c.take(2)) }
func (c *cursor) text() string { return string(c.take(int(c.u16()))) }
func (c *cursor) rest() []byte { return c.take(len(c.b)) }

func (c *cursor) varint() int {
	n, size := binary.Uvarint(c.b)
	if size <= 0 || size > 4 || size > 1 && c.b[size-1] == 0 { // not the shortest form [MQTT-1.5.5-1]
		c.short, c.b = true, nil
		return 0
	}
	c.b = c.b[size:]
	return int(n)
}

// properties reads a property part.
func (c *cursor) properties(version byte) (list []property) {
	if version < v5 {
		return nil
	}
	part := cursor{b: c.take(c.varint())}
	for len(part.b) > 0 {
		id := part.byte()
		before := part.b
		part.value(id)
		list = append(list, property{id, string(before[:len(before)-len(part.b)])})
	}
	c.short = c.short || part.short
	return list
}

// value skips the value of a property.
func (c *cursor) value(id byte) {
	switch id {
	case payloadFormat, requestProblemInfo, requestResponseInfo, maximumQoS, retainAvailable,
		wildcardAvailable, subscriptionIDsAllowed, sharedAvailable:
		c.take(1)
	case serverKeepAlive, receiveMaximum, topicAliasMaximum, topicAlias:
		c.take(2)
	case messageExpiry, sessionExpiry, willDelay, maximumPacketSize:
		c.take(4)
	case subscriptionIdentifier:
		c.varint()
	case userProperty:
		c.text()
		c.text()
	case contentType, responseTopic, correlationData, assignedClientID, authMethod, authData,
		responseInformation, serverReference, reasonString:
		c.text()
	default:
		c.short, c.b = true, nil
	}
}

var errLayout = errors.New("not in the format of the standard")

// parse parses a packet that a server may send.
func parse(version byte, raw []byte) packet {
	p := packet{raw: raw, first: raw[0]}
	_, n := binary.Uvarint(raw[1:])
	c := cursor{b: raw[1+n:]}
	switch p.kind() {
	case typeConnack:
		p.present = c.byte() == 1
		p.codes = []byte{c.byte()}
		p.props = c.properties(version)
	case typePublish:
		p.topic = c.text()
		if p.qos() > 0 {
			p.id = c.u16()
		}
		p.props = c.properties(version)
		p.payload = string(c.rest())
	case typePuback, typePubrec, typePubrel, typePubcomp:
		p.id = c.u16()
		p.reasonAndProperties(&c, version)
	case typeSuback:
		p.id = c.u16()
		p.props = c.properties(version)
		p.codes = c.rest()
	case typeUnsuback:
		p.id = c.u16()
		if version == v5 {
			p.props = c.properties(version)
			p.codes = c.rest()
		}
	case typePingresp:
	case typeDisconnect, typeAuth:
		p.reasonAndProperties(&c, version)
		c.short = c.short || version < v5
	default:
		c.short = true
	}
	switch {
	case c.short || len(c.b) > 0:
		p.malformed = errLayout
	case !p.validCodes(version):
		p.malformed = errReason
	}
	return p
}

var errReason = errors.New("with a reason that such a packet does not have")

// validCodes reports whether a server may send the packet with these reason codes:
// [MQTT-3.2.2-8] [MQTT-3.4.2-1] [MQTT-3.5.2-1] [MQTT-3.6.2-1] [MQTT-3.7.2-1] [MQTT-3.9.3-2]
// [MQTT-3.11.3-2] [MQTT-3.14.2-1] [MQTT-3.15.2-1], in 3.1.1 [MQTT-3.9.3-2].
func (p packet) validCodes(version byte) bool {
	table := reasonsBeforeFive
	if version == v5 {
		table = reasonsOfFive
	}
	for _, code := range p.codes {
		if !strings.Contains(table[p.kind()], string([]byte{code})) {
			return false
		}
	}
	return true
}

// The codes that a server may send, by the type of packet. Before MQTT 5 the
// acknowledgements of a PUBLISH have none, which is parsed as 0.
var (
	reasonsBeforeFive = map[byte]string{
		typeConnack: "\x00\x01\x02\x03\x04\x05", typeSuback: "\x00\x01\x02\x80",
		typePuback: "\x00", typePubrec: "\x00", typePubrel: "\x00", typePubcomp: "\x00",
	}
	reasonsOfFive = map[byte]string{
		typeConnack: "\x00\x80\x81\x82\x83\x84\x85\x86\x87\x88\x89\x8a\x8c\x90\x95\x97\x99\x9a\x9b\x9c\x9d\x9f",
		typePuback:  "\x00\x10\x80\x83\x87\x90\x91\x97\x99", typePubrec: "\x00\x10\x80\x83\x87\x90\x91\x97\x99",
		typePubrel: "\x00\x92", typePubcomp: "\x00\x92",
		typeSuback: "\x00\x01\x02\x80\x83\x87\x8f\x91\x97\x9e\xa1\xa2", typeUnsuback: "\x00\x11\x80\x83\x87\x8f\x91",
		typeDisconnect: "\x00\x80\x81\x82\x83\x87\x89\x8b\x8c\x8d\x8e\x8f\x90\x93\x94\x95\x96\x97\x98\x99\x9a\x9b\x9c\x9d\x9e\x9f\xa0\xa1\xa2",
		typeAuth:       "\x00\x18",
	}
)

// reasonAndProperties reads the end of a packet that may omit both.
func (p *packet) reasonAndProperties(c *cursor, version byte) {
	p.codes = []byte{success}
	if version == v5 && len(c.b) > 0 {
		p.codes = []byte{c.byte()}
	}
	if version == v5 && len(c.b) > 0 {
		p.props = c.properties(version)
	}
}

package client

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"unicode/utf8"

	"signalbox/broker/mqtt/packet"
)

// Properties of MQTT 5 [MQTT 2.2.2.2].
const (
	propMessageExpiry     = 0x02
	propSubscriptionID    = 0x0b
	propSessionExpiry     = 0x11
	propServerKeepAlive   = 0x13
	propReceiveMaximum    = 0x21
	propTopicAlias        = 0x23
	propMaximumQoS        = 0x24
	propRetainAvailable   = 0x25
	propUser              = 0x26
	propMaximumPacketSize = 0x27
	propWildcardAvailable = 0x28
	propSubIDAvailable    = 0x29
)

// The encodings of properties: the size of a value, or one of these.
const (
	formVarint = -1 - iota
	formBytes
	formPair
)

// forms holds the encoding of each property, 0 for an unknown one.
var forms = [...]int{
	0x01: 1, 0x02: 4, 0x03: formBytes, 0x08: formBytes, 0x09: formBytes, 0x0b: formVarint,
	0x11: 4, 0x12: formBytes, 0x13: 2, 0x15: formBytes, 0x16: formBytes, 0x17: 1, 0x18: 4, 0x19: 1, 0x1a: formBytes, 0x1c: formBytes, 0x1f: formBytes,
	0x21: 2, 0x22: 2, 0x23: 2, 0x24: 1, 0x25: 1, 0x26: formPair, 0x27: 4, 0x28: 1, 0x29: 1, 0x2a: 1,
}

// errMalformed is a malformed packet.
var errMalformed = errors.New("received a malformed packet")

// scanner decodes a packet body. After a failure all values are zero.
type scanner struct {
	rest   []byte
	failed bool
}

func (s *scanner) take(n int) []byte {
	if n > len(s.rest) {
		s.rest, s.failed = nil, true
		return nil
	}
	b := s.rest[:n:n]
	s.rest = s.rest[n:]
	return b
}

// number decodes an integer of n bytes.
func (s *scanner) number(n int) (v uint32) {
	for _, b := range s.take(n) {
		v = v<<8 | uint32(b)
	}
	return v
}

// varint decodes a variable byte integer [MQTT-1.5.5-1].
func (s *scanner) varint() int {
	v, n := binary.Uvarint(s.rest[:min(len(s.rest), 4)])
	if n <= 0 {
		s.rest, s.failed = nil, true
		return 0
	}
	s.rest = s.rest[n:]
	return int(v)
}

func (s *scanner) bytes() []byte { return s.take(int(s.number(2))) }

func (s *scanner) err() error {
	if s.failed {
		return errMalformed
	}
	return nil
}

// properties decodes properties, if any bytes are left, and calls each with the numeric value
// and the raw encoding.
func (s *scanner) properties(each func(id byte, number uint32, raw []byte)) {
	if len(s.rest) == 0 {
		return
	}
	p := scanner{rest: s.take(s.varint())}
	for len(p.rest) > 0 {
		start := p.rest
		id := byte(p.number(1))
		number := p.value(id)
		if !p.failed {
			each(id, number, start[:len(start)-len(p.rest)])
		}
	}
	s.failed = s.failed || p.failed
}

// value skips the value of a property, and returns it if it is a number.
func (s *scanner) value(id byte) uint32 {
	form := 0
	if int(id) < len(forms) {
		form = forms[id]
	}
	switch form {
	case 0:
		s.rest, s.failed = nil, true
	case formVarint:
		return uint32(s.varint())
	case formPair:
		s.bytes()
		s.bytes()
	case formBytes:
		s.bytes()
	default:
		return s.number(form)
	}
	return 0
}

// v311Window is the number of unacknowledged PUBLISH packets above QoS 0 sent to an MQTT 3.1.1
// broker, which cannot announce a limit. Mosquitto accepts 20, and reorders further ones of
// QoS 2.
const v311Window = 20

// connack is the content of a CONNACK.
type connack struct {
	sessionPresent  bool // it has kept the session
	code            byte
	window          int    // Receive Maximum
	maxQoS          byte   // Maximum QoS
	maxPacket       int    // bytes, 0 for no limit
	keepAlive       int    // seconds, 0 for the requested value
	noRetain        bool   // retained messages are not supported
	peer            string // the broker's name among bridges
	subscriptionIDs bool   // subscription identifiers are supported
}

// decodeConnack decodes a CONNACK [MQTT 3.2].
func decodeConnack(body []byte, version byte) (connack, error) {
	s := scanner{rest: body}
	a := connack{sessionPresent: s.number(1)&1 != 0, code: byte(s.number(1)), window: v311Window, maxQoS: 2}
	if version == packet.V5 {
		a.window, a.subscriptionIDs = 65535, true
		s.properties(func(id byte, n uint32, raw []byte) { a.setProperty(id, n, raw) })
	}
	return a, s.err()
}

func (a *connack) setProperty(id byte, n uint32, raw []byte) {
	switch id {
	case propReceiveMaximum:
		a.window = max(int(n), 1)
	case propMaximumQoS:
		a.maxQoS = min(byte(n), 2)
	case propRetainAvailable:
		a.noRetain = n == 0
	case propMaximumPacketSize:
		a.maxPacket = int(n)
	case propServerKeepAlive:
		a.keepAlive = int(n)
	case propUser:
		pair := scanner{rest: raw[1:]}
		if name, value := pair.bytes(), pair.bytes(); string(name) == packet.BridgeProperty {
			a.peer = string(value)
		}
	case propSubIDAvailable:
		a.subscriptionIDs = n != 0
	}
}

// incoming is a PUBLISH from the broker. Its slices are valid until the next decode.
type incoming struct {
	topic, payload, properties []byte // properties without those handled here
	id                         uint16
	qos                        byte
	dup, retain                bool
	expiry                     uint32 // seconds, 0 for none
	subscriptionIDs            []uint32
}

// decode decodes a PUBLISH [MQTT 3.3].
func (p *incoming) decode(first byte, body []byte, version byte) error {
	*p = incoming{properties: p.properties[:0], subscriptionIDs: p.subscriptionIDs[:0],
		dup: first&8 != 0, qos: first >> 1 & 3, retain: first&1 != 0}
	s := scanner{rest: body}
	p.topic = s.bytes()
	if p.qos > 0 {
		p.id = uint16(s.number(2))
	}
	if version == packet.V5 {
		s.failed = s.failed || len(s.rest) == 0
		s.properties(p.addProperty)
	}
	p.payload = s.rest
	switch {
	case s.failed, p.qos > 2, p.qos > 0 && p.id == 0:
		return errMalformed
	case len(p.topic) == 0, bytes.ContainsAny(p.topic, "+#\x00"), !utf8.Valid(p.topic): // [MQTT-3.3.2-1] [MQTT-3.3.2-2]
		return errMalformed
	}
	return nil
}

func (p *incoming) addProperty(id byte, n uint32, raw []byte) {
	switch id {
	case propMessageExpiry:
		p.expiry = max(n, 1)
	case propSubscriptionID:
		p.subscriptionIDs = append(p.subscriptionIDs, n)
	case propTopicAlias: // never, since none is allowed
	default:
		p.properties = append(p.properties, raw...)
	}
}

// decodeAck decodes a PUBACK, PUBREC, PUBREL or PUBCOMP [MQTT 3.4].
func decodeAck(body []byte) (id uint16, code byte, err error) {
	s := scanner{rest: body}
	id = uint16(s.number(2))
	if len(s.rest) > 0 {
		code = byte(s.number(1))
	}
	return id, code, s.err()
}

// decodeCodes decodes a SUBACK or UNSUBACK. The UNSUBACK of MQTT 3.1.1 has no codes.
func decodeCodes(body []byte, version byte) (id uint16, codes []byte, err error) {
	s := scanner{rest: body}
	id = uint16(s.number(2))
	if version == packet.V5 {
		s.failed = s.failed || len(s.rest) == 0
		s.properties(func(byte, uint32, []byte) {})
	}
	return id, s.rest, s.err()
}

// appendLeave appends a DISCONNECT that ends the session with the connection [MQTT
// 3.14.2.2.2].
func appendLeave(dst []byte) []byte {
	return append(dst, packet.TypeDisconnect<<4, 7, 0, 5, propSessionExpiry, 0, 0, 0, 0)
}

// appendGoodbye appends a DISCONNECT that keeps the session.
func appendGoodbye(dst []byte) []byte { return append(dst, packet.TypeDisconnect<<4, 0) }

// ConnackError is a CONNACK that refuses the connection.
type ConnackError struct {
	Version byte // of MQTT, 4 or 5
	Code    byte // in that version
}

func (r *ConnackError) Error() string {
	return fmt.Sprintf("CONNECT was refused with code 0x%02x of MQTT version %d", r.Code, r.Version)
}

// V311Code returns the corresponding code of MQTT 3.1.1, 1 to 5, or 0.
func (r *ConnackError) V311Code() byte {
	switch r.Code {
	case packet.ReasonUnsupportedVersion:
		return 1
	case packet.ReasonClientIDNotValid:
		return 2
	case packet.ReasonServerUnavailable, packet.ReasonServerBusy:
		return 3
	case packet.ReasonBadUsernameOrPassword:
		return 4
	case packet.ReasonNotAuthorized, packet.ReasonBanned:
		return 5
	}
	if r.Code > 5 {
		return 0
	}
	return r.Code
}

// DisconnectError is a DISCONNECT from the broker.
type DisconnectError struct {
	Code byte // of the DISCONNECT
}

// TakenOver reports whether another client has connected with the same client id.
func (e *DisconnectError) TakenOver() bool { return e.Code == packet.ReasonSessionTakenOver }

func (e *DisconnectError) Error() string {
	return fmt.Sprintf("the broker ended the connection with code 0x%02x", e.Code)
}

package packet

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"unicode/utf8"
)

var errMalformedPacket = errors.New("malformed packet")

// Decode decodes a packet that a server sent, in a version of the protocol. It fails unless
// the packet is well-formed. The result shares no memory with body.
func Decode(first byte, body []byte, version byte) (Packet, error) {
	p := Packet{Type: first}
	if Kind(first) == Publish {
		p.Type = Publish
	}
	rest, err := p.decode(first, body, version)
	switch {
	case err != nil:
		return p, fmt.Errorf("packet %#x: %w", first, err)
	case len(rest) > 0:
		return p, fmt.Errorf("packet %#x: %w: %d bytes follow it", first, errMalformedPacket, len(rest))
	}
	return p, nil
}

// decode decodes the body, and returns the bytes that follow what the type has.
func (p *Packet) decode(first byte, body []byte, version byte) (rest []byte, err error) {
	switch p.Type {
	case Publish:
		return nil, p.decodePublish(first, body, version)
	case Connack:
		return p.decodeConnack(body, version)
	case Puback, Pubrec, Pubrel, Pubcomp:
		d := &decoder{b: body}
		if p.ID = uint16(d.number(two)); d.err != nil {
			return nil, d.err
		}
		return p.decodeReason(d.b, version)
	case Suback, Unsuback:
		return nil, p.decodeReasons(body, version)
	case Disconnect:
		return p.decodeReason(body, version)
	case Pingresp:
		return body, nil
	}
	return nil, fmt.Errorf("%w: a server does not send it", errMalformedPacket)
}

func (p *Packet) decodePublish(first byte, body []byte, version byte) (err error) {
	m, ok := ReadPublish(first, body)
	if !ok || m.QoS > 2 || !utf8.Valid(m.Topic) {
		return errMalformedPacket
	}
	p.Topic, p.ID, p.QoS, p.Retain, p.Dup = string(m.Topic), m.ID, m.QoS, m.Retain, m.Dup
	if version == V5 {
		if p.Properties, m.Payload, err = readProperties(m.Payload, Publish); err != nil {
			return err
		}
	}
	p.Payload = bytes.Clone(m.Payload)
	return nil
}

func (p *Packet) decodeConnack(body []byte, version byte) (rest []byte, err error) {
	if len(body) < 2 || body[0] > 1 {
		return nil, errMalformedPacket
	}
	p.Present, p.Reason = body[0] == 1, body[1]
	if version != V5 {
		return body[2:], nil
	}
	p.Properties, rest, err = readProperties(body[2:], Connack)
	return rest, err
}

// decodeReason decodes a reason code and properties, which may be omitted.
func (p *Packet) decodeReason(body []byte, version byte) (rest []byte, err error) {
	if version != V5 || len(body) == 0 {
		return body, nil
	}
	if p.Reason = body[0]; len(body) == 1 {
		return nil, nil
	}
	p.Properties, rest, err = readProperties(body[1:], p.Type)
	return rest, err
}

// decodeReasons decodes the packet identifier and the reason codes of SUBACK or UNSUBACK.
func (p *Packet) decodeReasons(body []byte, version byte) (err error) {
	d := &decoder{b: body}
	if p.ID = uint16(d.number(two)); d.err != nil {
		return d.err
	}
	codes := d.b
	if version == V5 {
		if p.Properties, codes, err = readProperties(d.b, p.Type); err != nil {
			return err
		}
	}
	if p.Type == Unsuback && version != V5 && len(codes) > 0 {
		return errMalformedPacket
	}
	if len(codes) > 0 {
		p.Reasons = bytes.Clone(codes)
	}
	return nil
}

// decoder reads values. After an error it returns zero values.
type decoder struct {
	b   []byte
	err error
}

func (d *decoder) take(n int) []byte {
	if d.err != nil || n > len(d.b) {
		d.b, d.err = nil, errMalformedPacket
		return nil
	}
	taken := d.b[:n]
	d.b = d.b[n:]
	return taken
}

func (d *decoder) byte() byte { return byte(d.number(oneByte)) }

// number returns a number of that many bytes.
func (d *decoder) number(length int) (n uint32) {
	for _, b := range d.take(length) {
		n = n<<8 | uint32(b)
	}
	return n
}

func (d *decoder) varint() uint32 {
	n, length := binary.Uvarint(d.b)
	if length <= 0 || length > 4 {
		d.b, d.err = nil, errMalformedPacket
		return 0
	}
	d.take(length)
	return uint32(n)
}

// binary returns data with its length [MQTT-1.5.6].
func (d *decoder) binary() []byte { return d.take(int(d.number(two))) }

// text returns a string with its length, which must be UTF-8 [MQTT-1.5.4-1].
func (d *decoder) text() string {
	b := d.binary()
	if !utf8.Valid(b) {
		d.b, d.err = nil, errMalformedPacket
	}
	return string(b)
}

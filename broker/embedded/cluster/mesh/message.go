package mesh

import (
	"encoding/binary"

	"signalbox/broker/embedded/engine"
)

// parcel is a message on its way to another node.
type parcel struct {
	message *engine.Message
	engine.Crossing
	number uint64 // that the other node confirms; 0 at QoS 0
	late   bool   // it may come after others that were published behind it
}

// The bits of a parcel's first byte.
const (
	bitDirect  = 1
	bitRetain  = 2
	bitLate    = 4
	shiftQoS   = 3 // two bits: as published
	shiftLevel = 5 // two bits: the greatest it is delivered with
)

// size is what a parcel counts against the bounds of a link.
func (p *parcel) size() int64 {
	m := p.message
	return int64(len(m.Topic) + len(m.Payload) + len(m.Properties))
}

func appendParcel(dst []byte, p *parcel) []byte {
	at, m := len(dst), p.message
	dst = append(open(dst, frameMessage),
		flag(p.Direct, bitDirect)|flag(m.Retain, bitRetain)|flag(p.late, bitLate)|m.QoS<<shiftQoS|p.QoS<<shiftLevel)
	dst = binary.AppendUvarint(dst, p.number)
	dst = binary.AppendVarint(dst, m.CreatedAt)
	dst = binary.AppendVarint(dst, m.ExpiresAt)
	dst = binary.BigEndian.AppendUint64(dst, m.Stamp)
	dst = appendText(dst, m.Topic)
	dst = appendText(dst, m.Publisher)
	dst = appendText(dst, m.Username)
	dst = binary.AppendUvarint(dst, uint64(len(p.Shares)))
	for _, share := range p.Shares {
		dst = appendText(dst, share)
	}
	dst = append(binary.AppendUvarint(dst, uint64(len(m.Properties))), m.Properties...)
	return seal(append(dst, m.Payload...), at)
}

// decodeParcel reads a parcel, of which nothing refers to the body any more.
func decodeParcel(body []byte, names *names) (p parcel, err error) {
	d := decoder{rest: body}
	b := d.byte()
	m := &engine.Message{QoS: b >> shiftQoS & 3, Retain: b&bitRetain != 0}
	p = parcel{message: m, late: b&bitLate != 0}
	p.Direct, p.QoS = b&bitDirect != 0, b>>shiftLevel&3
	p.number = d.uvarint()
	m.CreatedAt, m.ExpiresAt, m.Stamp = d.varint(), d.varint(), d.fixed()
	m.Topic, m.Publisher, m.Username = names.of(d.text()), names.of(d.text()), names.of(d.text())
	n := d.uvarint()
	if m.QoS > 2 || p.QoS > m.QoS || (p.QoS > 0) != (p.number > 0) || m.Topic == "" || n > maxShares {
		return p, errFrame
	}
	for range n {
		if d.err != nil {
			return p, d.err
		}
		p.Shares = append(p.Shares, names.of(d.text()))
	}
	properties := d.bytes(maxFrame)
	if d.err != nil {
		return p, d.err
	}
	both := make([]byte, len(d.rest)+len(properties))
	end := copy(both, d.rest)
	copy(both[end:], properties)
	m.Payload, m.Properties = both[:end:end], both[end:]
	return p, nil
}

// Names that are seen often are kept, so that they are made once.
const (
	maxNames   = 4096
	maxNameLen = 256
)

// names are texts of which there is one copy each.
type names struct{ known map[string]string }

// of gives the text that a body holds.
func (n *names) of(b []byte) string {
	if len(b) == 0 {
		return ""
	}
	if s, ok := n.known[string(b)]; ok {
		return s
	}
	s := string(b)
	if len(s) > maxNameLen {
		return s
	}
	if n.known == nil || len(n.known) >= maxNames {
		n.known = map[string]string{}
	}
	n.known[s] = s
	return s
}

package mesh

import (
	"encoding/binary"

	"signalbox/broker/embedded/engine"
)

// messageFrame is a message sent to another node.
type messageFrame struct {
	message *engine.Message
	engine.Forward
	number uint64 // confirmed by the other node; 0 at QoS 0
	stored uint64 // its number in the backlog, 0 for none
	late   bool   // it may arrive after messages that were published later
}

// The bits of the first byte.
const (
	bitDirect  = 1
	bitRetain  = 2
	bitLate    = 4
	shiftQoS   = 3 // two bits: QoS as published
	shiftLevel = 5 // two bits: the highest QoS of its delivery
)

// size returns what a message counts against the bounds of a queue.
func (p *messageFrame) size() int64 {
	m := p.message
	return int64(len(m.Topic) + len(m.Payload) + len(m.Properties))
}

func appendMessage(dst []byte, p *messageFrame) []byte {
	at, m := len(dst), p.message
	dst = append(beginFrame(dst, frameMessage),
		flagIf(p.Direct, bitDirect)|flagIf(m.Retain, bitRetain)|flagIf(p.late, bitLate)|m.QoS<<shiftQoS|p.QoS<<shiftLevel)
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
	return endFrame(append(dst, m.Payload...), at)
}

// decodeMessage decodes a message. It copies what it keeps of body.
func decodeMessage(body []byte, interner *interner) (p messageFrame, err error) {
	d := newDecoder(body)
	b := d.Byte()
	m := &engine.Message{QoS: b >> shiftQoS & 3, Retain: b&bitRetain != 0}
	p = messageFrame{message: m, late: b&bitLate != 0}
	p.Direct, p.QoS = b&bitDirect != 0, b>>shiftLevel&3
	p.number = d.Number()
	m.CreatedAt, m.ExpiresAt, m.Stamp = d.Signed(), d.Signed(), d.Uint64()
	m.Topic, m.Publisher, m.Username = interner.intern(d.text()), interner.intern(d.text()), interner.intern(d.text())
	n := d.Number()
	if m.QoS > 2 || p.QoS > m.QoS || (p.QoS > 0) != (p.number > 0) || m.Topic == "" || n > maxShares {
		return p, errFrame
	}
	for range n {
		if d.Broken {
			return p, errFrame
		}
		p.Shares = append(p.Shares, interner.intern(d.text()))
	}
	properties := d.bytes(maxFrame)
	if d.Broken {
		return p, errFrame
	}
	buf := make([]byte, len(d.Rest)+len(properties))
	payloadEnd := copy(buf, d.Rest)
	copy(buf[payloadEnd:], properties)
	m.Payload, m.Properties = buf[:payloadEnd:payloadEnd], buf[payloadEnd:]
	return p, nil
}

// Bounds of the interned strings.
const (
	maxInterned    = 4096
	maxInternedLen = 256
)

// interner keeps one copy of strings that recur.
type interner struct{ strings map[string]string }

// intern returns b as a string.
func (n *interner) intern(b []byte) string {
	if len(b) == 0 {
		return ""
	}
	if s, ok := n.strings[string(b)]; ok {
		return s
	}
	s := string(b)
	if len(s) > maxInternedLen {
		return s
	}
	if n.strings == nil || len(n.strings) >= maxInterned {
		n.strings = map[string]string{}
	}
	n.strings[s] = s
	return s
}

package mqtt

import (
	"bytes"
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"slices"
	"strings"

	"signalbox/broker/mqtt/packet"
)

// Bounds of a trace. A message that has visited more brokers is not forwarded; further targets
// are left out.
const (
	maxVisited = 32
	maxPending = 64
)

// token is a hash of a broker's name, of a topic, or of a target, which is a topic at a broker.
type token [9]byte

// targetOf returns the token of a topic at a broker.
func targetOf(broker token, topic string) (t token) {
	sum := sha256.Sum256(append(broker[:], topic...))
	copy(t[:], sum[:])
	return t
}

func tokenOf(name string) (t token) {
	sum := sha256.Sum256([]byte(name))
	copy(t[:], sum[:])
	return t
}

// traceID identifies a message on all paths.
type traceID [12]byte

// trace records the brokers that a message has visited and the targets that it is being sent to.
// In the user property packet.BridgeProperty it consists of version, identifier, topic of the
// origin, visited, pending, in base64, where a token has 12 characters.
type trace struct {
	id      traceID
	topic   token   // topic at the origin
	visited []token // brokers, first the origin
	pending []token // targets that a bridge of a visited broker sends it to
}

// traceIDLen and tokenLen are lengths in base64.
const (
	traceIDLen = 16
	tokenLen   = 12
	version1   = "1."
)

var encoding = base64.RawURLEncoding.Strict()

// append appends the value of the property.
func (t *trace) append(dst []byte) []byte {
	dst = append(dst, version1...)
	dst = encoding.AppendEncode(dst, t.id[:])
	dst = encoding.AppendEncode(dst, t.topic[:])
	for _, list := range [][]token{t.visited, t.pending} {
		dst = append(dst, '.')
		for _, k := range list {
			dst = encoding.AppendEncode(dst, k[:])
		}
	}
	return dst
}

// parseTrace parses the value of the property. It accepts only the exact form.
func parseTrace(value string) (*trace, bool) {
	rest, ok := strings.CutPrefix(value, version1)
	if !ok || len(rest) < traceIDLen+tokenLen {
		return nil, false
	}
	t := &trace{}
	visited, pending, ok := strings.Cut(rest[traceIDLen+tokenLen:], ".")
	if !ok || visited != "" {
		return nil, false
	}
	visited, pending, ok = strings.Cut(pending, ".")
	if !ok || !decode(t.id[:], rest[:traceIDLen]) || !decode(t.topic[:], rest[traceIDLen:traceIDLen+tokenLen]) {
		return nil, false
	}
	var fit bool
	if t.visited, fit = parseTokens(visited, maxVisited); !fit || len(t.visited) == 0 {
		return nil, false
	}
	t.pending, fit = parseTokens(pending, maxPending)
	return t, fit
}

func parseTokens(s string, most int) (list []token, ok bool) {
	if len(s)%tokenLen != 0 || len(s)/tokenLen > most {
		return nil, false
	}
	for ; s != ""; s = s[tokenLen:] {
		var k token
		if !decode(k[:], s[:tokenLen]) {
			return nil, false
		}
		list = append(list, k)
	}
	return list, true
}

// decode decodes s into dst, which must have exactly the decoded length.
func decode(dst []byte, s string) bool {
	n, err := encoding.Decode(dst, []byte(s))
	return err == nil && n == len(dst)
}

func (t *trace) hasVisited(k token) bool { return slices.Contains(t.visited, k) }

// covers reports whether a broker has the message, or is being sent it to a topic.
func (t *trace) covers(k token, topic string) bool {
	return t.hasVisited(k) || slices.Contains(t.pending, targetOf(k, topic))
}

// addVisited adds a broker. It reports false if the message has visited too many.
func (t *trace) addVisited(k token) bool {
	if t.hasVisited(k) {
		return true
	}
	t.visited = append(t.visited, k)
	return len(t.visited) <= maxVisited
}

// addPending adds a target.
func (t *trace) addPending(target token) {
	if len(t.pending) < maxPending && !slices.Contains(t.pending, target) {
		t.pending = append(t.pending, target)
	}
}

// propUser is the identifier of a user property [MQTT 2.2.2.2].
const propUser = 0x26

// tracePropertyStart is the beginning of each property that holds a trace.
var tracePropertyStart = append([]byte{propUser, 0, byte(len(packet.BridgeProperty))}, packet.BridgeProperty...)

// splitTrace returns the trace in the properties of a message, nil for none or a malformed one,
// and the other properties. It does not modify its argument.
func splitTrace(properties []byte) (t *trace, rest []byte) {
	if !bytes.Contains(properties, tracePropertyStart) {
		return nil, properties
	}
	from := 0
	for at := 0; at < len(properties); {
		n := propertyLen(properties[at:])
		if n == 0 {
			return nil, properties // not the properties of a message: leave them unchanged
		}
		if value, ok := traceValue(properties[at : at+n]); ok {
			if t == nil {
				t, _ = parseTrace(value)
			}
			rest = append(rest, properties[from:at]...)
			from = at + n
		}
		at += n
	}
	return t, append(rest, properties[from:]...)
}

// traceValue returns the value of a property that holds a trace.
func traceValue(p []byte) (string, bool) {
	rest, ok := bytes.CutPrefix(p, tracePropertyStart)
	if !ok || len(rest) < 2 {
		return "", false
	}
	return string(rest[2:]), true
}

// propertyLen returns the length of the first property, 0 if a message cannot have it.
func propertyLen(p []byte) int {
	n := 0
	switch p[0] {
	case 0x01: // payload format indicator
		n = 2
	case 0x03, 0x08, 0x09: // content type, response topic, correlation data
		n = textLen(p, 1)
	case propUser:
		if n = textLen(p, 1); n > 0 {
			n = textLen(p, n)
		}
	}
	if n > len(p) {
		return 0
	}
	return n
}

// textLen returns the end of the text that begins at an index, 0 if there is none.
func textLen(p []byte, at int) int {
	if len(p) < at+2 {
		return 0
	}
	return at + 2 + int(binary.BigEndian.Uint16(p[at:]))
}

// join returns a copy of properties with the trace appended.
func (t *trace) join(properties []byte) []byte {
	value := t.append(make([]byte, 0, 512))
	b := make([]byte, 0, len(properties)+len(tracePropertyStart)+2+len(value))
	b = append(append(b, properties...), tracePropertyStart...)
	return append(binary.BigEndian.AppendUint16(b, uint16(len(value))), value...)
}

// Package packet is MQTT's packets as bytes: strict on the way in, exact on the
// way out, for the versions 3.1, 3.1.1 and 5.
//
// What a client sends is walked by a gate of this package before anything else
// sees it: lengths, flags, properties, texts and values. CONNECT, SUBSCRIBE and
// UNSUBSCRIBE, once past the gate, are taken apart by the decoders of
// github.com/mochi-mqtt/server/v2/packets, which by themselves accept much that
// is malformed and panic at some of it. The other packets are decoded here:
// PUBLISH and its acknowledgements because they must not allocate, DISCONNECT,
// and PINGREQ because after the gate nothing is left to do. Everything is
// encoded here. Nothing panics, whatever the bytes.
//
// Where the standard leaves open which reason code answers a fault, it is the
// one that Mosquitto 2.0.11 sends.
//
// MQTT 3.1 forbids less than 3.1.1: reserved flags are not looked at, and a
// username or password that is announced but missing is none.
//
// It must not import any package of this module: sessions, connections and what
// a packet brings about are the engine's.
package packet

// The types of packets [MQTT 2.1.2].
const (
	TypeConnect byte = iota + 1
	TypeConnack
	TypePublish
	TypePuback
	TypePubrec
	TypePubrel
	TypePubcomp
	TypeSubscribe
	TypeSuback
	TypeUnsubscribe
	TypeUnsuback
	TypePingreq
	TypePingresp
	TypeDisconnect
	TypeAuth
)

// The versions of MQTT, as CONNECT names them.
const (
	V31  byte = 3
	V311 byte = 4
	V5   byte = 5
)

// maxText is the length of the longest text or binary value, in bytes.
const maxText = 65535

// maxVarint is the greatest variable byte integer [MQTT-1.5.5].
const maxVarint = 1<<28 - 1

// Size tells the length of the packet that buf begins with, its fixed header
// included, or 0 while that header is incomplete. It fails with an *Error where
// the length takes more than four bytes, or more than it needs [MQTT-1.5.5-1].
func Size(buf []byte) (int, error) {
	if len(buf) < 2 {
		return 0, nil
	}
	n, width, fault := varint(buf[1:])
	if fault != nil {
		return 0, fault
	}
	if width == 0 {
		return 0, nil
	}
	return 1 + width + int(n), nil
}

// varint reads a variable byte integer and tells how many bytes it takes, 0
// where b ends too early.
func varint(b []byte) (n uint32, width int, fault *Error) {
	for i := range min(len(b), 4) {
		n |= uint32(b[i]&0x7f) << (7 * i)
		if b[i] >= 0x80 {
			continue
		}
		if i > 0 && b[i] == 0 {
			return 0, 0, errLongVarint
		}
		return n, i + 1, nil
	}
	if len(b) >= 4 {
		return 0, 0, errLongVarint
	}
	return 0, 0, nil
}

// open checks a packet's type and length and gives what follows its fixed
// header.
func open(p []byte, kind byte) cursor {
	if len(p) == 0 {
		return cursor{fault: errTruncated}
	}
	n, width, fault := varint(p[1:])
	rest := p[1+width:]
	switch {
	case p[0]>>4 != kind:
		fault = errType
	case fault != nil:
	case width == 0 || len(rest) < int(n):
		fault = errTruncated
	case len(rest) > int(n):
		fault = errTrailing
	default:
		return cursor{rest: rest}
	}
	return cursor{fault: fault}
}

// openFlagged is open for the packets whose flags are reserved [MQTT-2.1.3-1].
// In MQTT 3.1 they are not: a client may set DUP where it sends a packet again.
func openFlagged(p []byte, kind, flags, version byte) cursor {
	c := open(p, kind)
	if version != V31 && c.fault == nil && p[0]&0x0f != flags {
		c.fail(errFlags)
	}
	return c
}

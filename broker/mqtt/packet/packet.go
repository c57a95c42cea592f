// Package packet encodes and decodes MQTT packets of versions 3.1, 3.1.1 and 5: strict in
// decoding, exact in encoding.
//
// Packets of clients are first validated by this package: lengths, flags, properties, texts and
// values. CONNECT, SUBSCRIBE and UNSUBSCRIBE are then decoded by
// github.com/mochi-mqtt/server/v2/packets, which by itself accepts many malformed packets and
// panics on some of them. The other packets are decoded here: PUBLISH and its acknowledgements
// because they must not allocate, DISCONNECT and PINGREQ because nothing is left to do after the
// validation. Everything is encoded here. Nothing panics on any input.
//
// Where the standard permits several reason codes, the one that Mosquitto 2.0.11 sends is used.
//
// MQTT 3.1 is less strict than 3.1.1: reserved flags are ignored, and a username or password whose
// flag is set may be missing.
//
// It must not import any package of this module: sessions, connections and the effects of packets
// belong to the engine.
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

// maxText is the maximum length of a text or binary value, in bytes.
const maxText = 65535

// maxVarint is the maximum variable byte integer [MQTT-1.5.5].
const maxVarint = 1<<28 - 1

// Size returns the length of the packet at the beginning of buf, including its fixed header,
// or 0 while that is incomplete. It returns an *Error if the length has more than four bytes,
// or more than necessary [MQTT-1.5.5-1].
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

// varint decodes a variable byte integer and returns its width, 0 if b is too short.
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

// openPacket checks a packet's type and length and returns a cursor behind its fixed header.
func openPacket(p []byte, kind byte) cursor {
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

// openFlagged is openPacket for packets with reserved flags [MQTT-2.1.3-1]. In MQTT 3.1 they
// are not reserved: a client may set DUP when it repeats a packet.
func openFlagged(p []byte, kind, flags, version byte) cursor {
	c := openPacket(p, kind)
	if version != V31 && c.fault == nil && p[0]&0x0f != flags {
		c.fail(errFlags)
	}
	return c
}

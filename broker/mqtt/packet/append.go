package packet

import (
	"encoding/binary"
	"slices"
)

// The functions that append a packet to dst return the extended slice, as append does, and do
// not allocate if dst has the capacity. Texts and binary values must not exceed 65535 bytes,
// packets 268435460.

// begin appends the first byte of a packet; end inserts the length after it.
func begin(dst []byte, kind, flags byte) (packet []byte, body int) {
	return append(dst, kind<<4|flags), len(dst) + 1
}

// end inserts the length of dst[from:] before it, as a variable byte integer. It completes
// packets and properties.
func end(dst []byte, from int) []byte {
	var length [binary.MaxVarintLen32]byte
	n := binary.PutUvarint(length[:], uint64(len(dst)-from)) // the same encoding as MQTT's variable byte integer
	return slices.Insert(dst, from, length[:n]...)
}

func appendVarint(dst []byte, n uint32) []byte { return binary.AppendUvarint(dst, uint64(n)) }

// varintLen returns the number of bytes that appendVarint appends.
func varintLen(n int) int {
	switch {
	case n < 1<<7:
		return 1
	case n < 1<<14:
		return 2
	case n < 1<<21:
		return 3
	}
	return 4
}

func appendText[T string | []byte](dst []byte, s T) []byte {
	return append(binary.BigEndian.AppendUint16(dst, uint16(len(s))), s...)
}

func appendProperty16(dst []byte, id byte, value uint16) []byte {
	return binary.BigEndian.AppendUint16(append(dst, id), value)
}

func appendProperty32(dst []byte, id byte, value uint32) []byte {
	return binary.BigEndian.AppendUint32(append(dst, id), value)
}

// appendNonZero16 omits a property with the default value, as do the two below.
func appendNonZero16(dst []byte, id byte, value uint16) []byte {
	if value == 0 {
		return dst
	}
	return appendProperty16(dst, id, value)
}

func appendNonZero32(dst []byte, id byte, value uint32) []byte {
	if value == 0 {
		return dst
	}
	return appendProperty32(dst, id, value)
}

func appendNonEmpty(dst []byte, id byte, value string) []byte {
	if value == "" {
		return dst
	}
	return appendText(append(dst, id), value)
}

// AppendAck appends a PUBACK, PUBREC, PUBREL or PUBCOMP in its shortest form, before MQTT 5
// without reason and reason string.
func AppendAck(dst []byte, version, kind byte, id uint16, reason byte, reasonString string) []byte {
	var flags byte
	if kind == TypePubrel { // [MQTT-3.6.1-1]
		flags = 2
	}
	dst, body := begin(dst, kind, flags)
	dst = binary.BigEndian.AppendUint16(dst, id)
	if version == V5 {
		dst = appendReason(dst, reason, reasonString)
	}
	return end(dst, body)
}

// AppendDisconnect appends a DISCONNECT of MQTT 5.
func AppendDisconnect(dst []byte, reason byte, reasonString string) []byte {
	dst, body := begin(dst, TypeDisconnect, 0)
	return end(appendReason(dst, reason, reasonString), body)
}

// AppendRedirect appends a DISCONNECT that refers the client to other servers, host:port separated
// by spaces (MQTT 5, 3.14.2.2.5 and 4.11).
func AppendRedirect(dst []byte, reason byte, serverReference string) []byte {
	dst, body := begin(dst, TypeDisconnect, 0)
	dst = append(dst, reason)
	from := len(dst)
	return end(end(appendNonEmpty(dst, propServerReference, serverReference), from), body)
}

// appendReason appends a reason code and a reason string in the shortest form.
func appendReason(dst []byte, reason byte, reasonString string) []byte {
	if reason == ReasonSuccess && reasonString == "" {
		return dst
	}
	dst = append(dst, reason)
	if reasonString == "" {
		return dst
	}
	from := len(dst)
	return end(appendNonEmpty(dst, propReasonString, reasonString), from)
}

// AppendSuback appends a SUBACK with a code for each topic filter.
func AppendSuback(dst []byte, version byte, id uint16, codes []byte) []byte {
	dst, body := beginAck(dst, TypeSuback, version, id)
	return end(append(dst, codes...), body)
}

// AppendUnsuback appends an UNSUBACK with, in MQTT 5, a code for each topic
// filter.
func AppendUnsuback(dst []byte, version byte, id uint16, codes []byte) []byte {
	dst, body := beginAck(dst, TypeUnsuback, version, id)
	if version == V5 {
		dst = append(dst, codes...)
	}
	return end(dst, body)
}

func beginAck(dst []byte, kind, version byte, id uint16) (packet []byte, body int) {
	dst, body = begin(dst, kind, 0)
	dst = binary.BigEndian.AppendUint16(dst, id)
	if version == V5 {
		dst = append(dst, 0) // no properties
	}
	return dst, body
}

// AppendPingreq appends a PINGREQ.
func AppendPingreq(dst []byte) []byte { return append(dst, TypePingreq<<4, 0) }

// AppendPingresp appends a PINGRESP.
func AppendPingresp(dst []byte) []byte { return append(dst, TypePingresp<<4, 0) }

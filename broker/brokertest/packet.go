package brokertest

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"errors"
	"io"
)

// PacketType is the type of an MQTT control packet [MQTT-2.1.2].
type PacketType byte

// Packet types that tests use.
const (
	Publish  PacketType = 3
	Pubrec   PacketType = 5
	Pubcomp  PacketType = 7
	Pingreq  PacketType = 12
	Pingresp PacketType = 13
)

// packet is a whole control packet.
type packet []byte

func (p packet) kind() PacketType { return PacketType(p[0] >> 4) }

// isUnsolicited reports whether a packet may arrive at any time: a ping, its response, or a
// message of $SYS.
func (p packet) isUnsolicited() bool {
	switch p.kind() {
	case Pingreq, Pingresp:
		return true
	case Publish:
		_, length := binary.Uvarint(p[1:])
		topic := p[min(1+length+2, len(p)):] // and what follows it
		return bytes.HasPrefix(topic, []byte("$SYS/"))
	}
	return false
}

var errLength = errors.New("remaining length of more than four bytes")

// readPacket reads a whole packet.
func readPacket(r *bufio.Reader) (packet, error) {
	first, err := r.ReadByte()
	if err != nil {
		return nil, err
	}
	p := packet{first}
	length := 0
	for shift := 0; ; shift += 7 {
		if shift > 21 {
			return nil, errLength
		}
		b, err := r.ReadByte()
		if err != nil {
			return nil, err
		}
		p = append(p, b)
		length |= int(b&0x7f) << shift
		if b&0x80 == 0 {
			break
		}
	}
	head := len(p)
	p = append(p, make([]byte, length)...)
	_, err = io.ReadFull(r, p[head:])
	return p, err
}

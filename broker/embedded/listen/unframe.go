package listen

import (
	"encoding/binary"
	"errors"
	"fmt"
	"sync"
	"unicode/utf8"
)

// The opcodes of WebSocket frames [RFC 6455, 5.2].
const (
	opContinuation = 0x0
	opText         = 0x1
	opBinary       = 0x2
	opClose        = 0x8
	opPing         = 0x9
	opPong         = 0xA
)

// The bits of a frame's first two bytes, and its limits.
const (
	bitFinal     = 0x80
	bitsReserved = 0x70
	bitsOpcode   = 0x0F
	bitMask      = 0x80
	length16     = 126 // two bytes of length follow
	length64     = 127 // eight do

	maxControl   = 125 // bytes of a control frame's payload
	maxFrameHead = 2 + 8 + 4
)

// The codes of close frames [RFC 6455, 7.4.1].
const (
	closeNormal      = 1000
	closeProtocol    = 1002
	closeUnsupported = 1003
)

var (
	errFrame     = errors.New("bad WebSocket frame")
	errTextFrame = errors.New("MQTT over WebSocket takes binary frames only")
)

// closed is the error of a close frame: the code to reply with.
type closed uint16

// Error implements error.
func (closed) Error() string { return "closed by the peer" }

// unframer parses a client's frames, wherever they are split.
type unframer struct {
	head      [maxFrameHead]byte // the header under way
	have      int                // bytes of it that have arrived
	opcode    byte               // of the frame under way
	left      uint64             // bytes of its payload still to come
	mask      [4]byte            // masks the next byte of it, and so on
	inMessage bool               // a message has started whose last frame has not
	control   []byte             // the payload of a control frame under way
	pong      []byte             // the payload to reply to a ping with; nil for none
}

// decode decodes raw bytes in place. It moves what they hold of messages to their beginning
// and returns its length, also if an error comes after it.
func (u *unframer) decode(raw []byte) (n int, err error) {
	for at := 0; at < len(raw) && err == nil; {
		if u.left == 0 {
			var used int
			used, err = u.readHead(raw[at:])
			at += used
			continue
		}
		part := raw[at:min(uint64(len(raw)), uint64(at)+u.left)]
		at += len(part)
		n += copy(raw[n:], u.take(part))
		err = u.finish()
	}
	return n, err
}

// takePong returns the payload to reply to the last ping with [RFC 6455, 5.5.3], or nil.
func (u *unframer) takePong() []byte {
	pong := u.pong
	u.pong = nil
	return pong
}

// readHead adds bytes to the header under way and starts the frame when it is complete.
func (u *unframer) readHead(raw []byte) (used int, err error) {
	used = copy(u.head[u.have:u.headLength()], raw)
	u.have += used
	if u.have < u.headLength() {
		return used, nil
	}
	head := u.head[:u.have]
	u.have = 0
	if err := u.begin(head); err != nil {
		return used, err
	}
	return used, u.finish() // of an empty one
}

// headLength returns the length of the header under way, as far as known. A frame without a
// mask is invalid, so two bytes of its header suffice.
func (u *unframer) headLength() int {
	if u.have < 2 || u.head[1]&bitMask == 0 {
		return 2
	}
	switch u.head[1] &^ bitMask {
	case length16:
		return 2 + 2 + len(u.mask)
	case length64:
		return 2 + 8 + len(u.mask)
	}
	return 2 + len(u.mask)
}

// begin starts the frame of a header.
func (u *unframer) begin(head []byte) error {
	switch {
	case head[1]&bitMask == 0: // [RFC 6455, 5.1]
		return fmt.Errorf("%w: not masked", errFrame)
	case head[0]&bitsReserved != 0:
		return fmt.Errorf("%w: reserved bits", errFrame)
	}
	switch length := head[1] &^ bitMask; length {
	case length16:
		u.left = uint64(binary.BigEndian.Uint16(head[2:]))
	case length64:
		u.left = binary.BigEndian.Uint64(head[2:])
	default:
		u.left = uint64(length)
	}
	u.mask = [4]byte(head[len(head)-4:])
	u.opcode = head[0] & bitsOpcode
	final := head[0]&bitFinal != 0
	if u.opcode >= opClose {
		return u.beginControl(final)
	}
	return u.beginData(final)
}

func (u *unframer) beginControl(final bool) error {
	switch {
	case u.opcode > opPong:
		return fmt.Errorf("%w: opcode 0x%x", errFrame, u.opcode)
	case !final || u.left > maxControl:
		return fmt.Errorf("%w: control frame in parts or too long", errFrame)
	}
	u.control = make([]byte, 0, u.left)
	return nil
}

func (u *unframer) beginData(final bool) error {
	switch {
	case u.opcode == opText:
		return errTextFrame
	case u.opcode > opBinary:
		return fmt.Errorf("%w: opcode 0x%x", errFrame, u.opcode)
	case u.inMessage != (u.opcode == opContinuation):
		return fmt.Errorf("%w: not the part of a message that was next", errFrame)
	case u.left > 1<<63-1:
		return fmt.Errorf("%w: length", errFrame)
	}
	u.inMessage = !final
	return nil
}

// take unmasks a part of the payload and returns what of it belongs to a message.
func (u *unframer) take(part []byte) []byte {
	u.left -= uint64(len(part))
	u.mask = unmask(part, u.mask)
	if u.opcode >= opClose {
		u.control = append(u.control, part...)
		return nil
	}
	return part
}

// unmask removes a mask and returns the one for what follows.
func unmask(p []byte, mask [4]byte) [4]byte {
	m := uint64(binary.LittleEndian.Uint32(mask[:]))
	m |= m << 32
	for ; len(p) >= 8; p = p[8:] {
		binary.LittleEndian.PutUint64(p, binary.LittleEndian.Uint64(p)^m)
	}
	for i := range p {
		p[i] ^= mask[i&3]
	}
	return [4]byte{mask[len(p)&3], mask[(len(p)+1)&3], mask[(len(p)+2)&3], mask[(len(p)+3)&3]}
}

// finish acts on a control frame that has just become complete.
func (u *unframer) finish() error {
	if u.left > 0 || u.opcode < opClose {
		return nil
	}
	payload := u.control
	u.control = nil
	switch u.opcode {
	case opPing:
		u.pong = payload
	case opClose:
		return parseClose(payload)
	}
	return nil
}

// parseClose parses the payload of a close frame: nothing, or a code and UTF-8.
func parseClose(payload []byte) error {
	if len(payload) == 0 {
		return closed(closeNormal)
	}
	if len(payload) == 1 || !utf8.Valid(payload[2:]) {
		return fmt.Errorf("%w: payload of a close frame", errFrame)
	}
	code := binary.BigEndian.Uint16(payload)
	if code < 1000 || code > 4999 || 1004 <= code && code <= 1006 || 1015 <= code && code < 3000 {
		return fmt.Errorf("%w: close code %d", errFrame, code)
	}
	return closed(code)
}

// frameBuffer is the size of the buffers in which frames are assembled.
const frameBuffer = 8 << 10

var frameBuffers = sync.Pool{New: func() any { return new([frameBuffer]byte) }}

// appendFrameHead appends the header of an unmasked frame that is a complete message.
func appendFrameHead(p []byte, opcode byte, size int) []byte {
	p = append(p, bitFinal|opcode)
	switch {
	case size < length16:
		return append(p, byte(size))
	case size <= 1<<16-1:
		return binary.BigEndian.AppendUint16(append(p, length16), uint16(size))
	}
	return binary.BigEndian.AppendUint64(append(p, length64), uint64(size))
}

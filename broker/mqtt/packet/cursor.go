package packet

import "encoding/binary"

// cursor reads a packet from front to back. After the first fault it gives
// zero values, and keeps that fault.
type cursor struct {
	rest  []byte
	fault *Error
}

func (c *cursor) fail(fault *Error) {
	if c.fault == nil {
		c.fault = fault
	}
	c.rest = nil
}

// check fails where there is a fault.
func (c *cursor) check(fault *Error) {
	if fault != nil {
		c.fail(fault)
	}
}

// take gives the next n bytes, which stay a part of the packet.
func (c *cursor) take(n int) []byte {
	if n > len(c.rest) {
		c.fail(errTruncated)
		return nil
	}
	b := c.rest[:n:n]
	c.rest = c.rest[n:]
	return b
}

func (c *cursor) byte() byte {
	if len(c.rest) == 0 {
		c.fail(errTruncated)
		return 0
	}
	b := c.rest[0]
	c.rest = c.rest[1:]
	return b
}

func (c *cursor) uint16() uint16 {
	if b := c.take(2); b != nil {
		return binary.BigEndian.Uint16(b)
	}
	return 0
}

func (c *cursor) uint32() uint32 {
	if b := c.take(4); b != nil {
		return binary.BigEndian.Uint32(b)
	}
	return 0
}

// packetID reads a packet identifier, which is never 0 [MQTT-2.2.1-3].
func (c *cursor) packetID() uint16 {
	id := c.uint16()
	if id == 0 {
		c.fail(errPacketID)
	}
	return id
}

// varint reads a variable byte integer [MQTT-1.5.5].
func (c *cursor) varint() uint32 {
	n, width, fault := varint(c.rest)
	switch {
	case fault != nil:
		c.fail(fault)
	case width == 0:
		c.fail(errTruncated)
	default:
		c.rest = c.rest[width:]
	}
	return n
}

// binary reads bytes that stand behind their length [MQTT-1.5.6].
func (c *cursor) binary() []byte { return c.take(int(c.uint16())) }

// text reads a UTF-8 string [MQTT-1.5.4].
func (c *cursor) text() []byte {
	b := c.binary()
	if !validText(b) {
		c.fail(errUTF8)
		return nil
	}
	return b
}

// topic reads a topic name, which has no wildcards and is not empty.
func (c *cursor) topic() []byte {
	b := c.text()
	c.check(topicFault(b))
	return b
}

// end wants the packet to be over.
func (c *cursor) end() *Error {
	if c.fault == nil && len(c.rest) > 0 {
		c.fault = errTrailing
	}
	return c.fault
}

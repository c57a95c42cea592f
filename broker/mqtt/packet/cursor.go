package packet

import "encoding/binary"

// cursor decodes a packet. After the first fault, which it keeps, all values are zero.
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

// check records a fault, if there is one.
func (c *cursor) check(fault *Error) {
	if fault != nil {
		c.fail(fault)
	}
}

// take returns the next n bytes without copying them.
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

// packetID decodes a packet identifier, which must not be 0 [MQTT-2.2.1-3].
func (c *cursor) packetID() uint16 {
	id := c.uint16()
	if id == 0 {
		c.fail(errPacketID)
	}
	return id
}

// varint decodes a variable byte integer [MQTT-1.5.5].
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

// binary decodes binary data [MQTT-1.5.6].
func (c *cursor) binary() []byte { return c.take(int(c.uint16())) }

// text decodes a UTF-8 string [MQTT-1.5.4].
func (c *cursor) text() []byte {
	b := c.binary()
	if !validText(b) {
		c.fail(errUTF8)
		return nil
	}
	return b
}

// topic decodes a topic name, which has no wildcards and is not empty.
func (c *cursor) topic() []byte {
	b := c.text()
	c.check(topicFault(b))
	return b
}

// end returns the fault, or one if bytes are left.
func (c *cursor) end() *Error {
	if c.fault == nil && len(c.rest) > 0 {
		c.fault = errTrailing
	}
	return c.fault
}

package engine

import (
	"sync"

	"signalbox/broker/mqtt/packet"
)

// batchSize is how many bytes are written to a connection at once.
const batchSize = 64 << 10

// batch is the packets of the next write to a connection: small ones are copied into one
// buffer, large ones are referred to.
type batch struct {
	buf      []byte   // copied packets
	begun    int      // start of the current segment in buf
	segments [][]byte // to be written, in order
	size     int
	packets  int
	messages int
	payload  int
}

var batches = sync.Pool{New: func() any { return &batch{buf: make([]byte, 0, batchSize+referAbove)} }}

func (b *batch) reset() {
	clear(b.segments)
	*b = batch{buf: b.buf[:0], segments: b.segments[:0]}
}

func (b *batch) full() bool { return b.size >= batchSize }

// control adds encoded packets.
func (b *batch) control(p []byte, packets int) {
	b.buf = append(b.buf, p...)
	b.size += len(p)
	b.packets += packets
}

// deliver adds a message.
func (b *batch) deliver(d *delivery, version byte, now int64) {
	if d.shared(version) {
		b.share(d, d.message.frame(version, d.qos > 0))
	} else {
		b.single(d, version, now)
	}
	b.packets++
	b.messages++
	b.payload += len(d.message.Payload)
}

// share adds the encoding that all recipients share, with this client's flags and packet
// identifier.
func (b *batch) share(d *delivery, frame []byte) {
	head := 1
	if d.qos > 0 {
		head = packet.PacketIDOffset(frame) + 2
	}
	at := len(b.buf)
	if len(frame) <= referAbove {
		b.buf = append(b.buf, frame...)
	} else {
		b.buf = append(b.buf, frame[:head]...)
	}
	b.buf[at] = d.flags()
	if d.qos > 0 {
		b.buf[at+head-2], b.buf[at+head-1] = byte(d.id>>8), byte(d.id)
	}
	b.size += len(frame)
	if len(frame) > referAbove {
		b.refer(frame[head:])
	}
}

// single adds an encoding for this client only.
func (b *batch) single(d *delivery, version byte, now int64) {
	o := d.packet(version, now)
	at := len(b.buf)
	b.buf = packet.AppendPublishHead(b.buf, version, &o)
	b.size += len(b.buf) - at + len(o.Payload)
	if len(o.Payload) <= referAbove {
		b.buf = append(b.buf, o.Payload...)
		return
	}
	b.refer(o.Payload)
}

// refer adds bytes without copying them.
func (b *batch) refer(p []byte) {
	b.cutSegment()
	b.segments = append(b.segments, p)
}

// cutSegment closes the segment of copied bytes. Earlier segments stay valid when the
// buffer grows, because they refer to the old one.
func (b *batch) cutSegment() {
	if len(b.buf) > b.begun {
		b.segments = append(b.segments, b.buf[b.begun:])
	}
	b.begun = len(b.buf)
}

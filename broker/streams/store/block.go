package store

import (
	"encoding/binary"
	"errors"
	"hash/crc32"
	"math"

	"signalbox/broker/messaging"
)

// A block is some messages in order, as they are stored:
//
//	version   1 byte
//	checksum  4 bytes, CRC-32C of what follows, big endian
//	runs      one behind the other
//
// A run is what was handed over at a time: the number of its messages, the time
// of the first, and the messages, each as
//
//	flags       1 byte: QoS, sameTopic, hasProperties
//	topic       length and bytes, unless it is that of the message before
//	distance    in time from the message before, in milliseconds
//	properties  length and bytes, if there are any
//	payload     length and bytes
//
// Numbers and lengths are unsigned varints; the first time is a signed one.
const (
	version = 1
	header  = 5

	qosMask       = 0b0011
	sameTopic     = 0b0100
	hasProperties = 0b1000
)

// Bounds of a block. One message that is larger than all of them is a block.
const (
	blockMessages = 1000
	blockBytes    = 256 << 10
	minBlockBytes = 4 << 10 // where a budget asks for smaller ones
)

// Upper bounds of what a message and a run take beside their bytes.
const (
	messageOverhead = 1 + 4*binary.MaxVarintLen64
	runOverhead     = 2 * binary.MaxVarintLen64
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// size is about what a message takes in a block.
func size(m *messaging.Message) int { return len(m.Topic) + len(m.Properties) + len(m.Payload) + 8 }

// run is some messages, encoded.
type run struct {
	data            []byte
	count           int
	firstAt, lastAt int64
}

// encode writes messages as a run. Their times do not go below last.
func encode(messages []messaging.Message, last int64) run {
	room := runOverhead
	for i := range messages {
		room += size(&messages[i]) + messageOverhead
	}
	first := max(messages[0].At, last)
	b := binary.AppendUvarint(make([]byte, 0, room), uint64(len(messages)))
	b = binary.AppendVarint(b, first)
	at, topic := first, ""
	for i := range messages {
		m := &messages[i]
		distance := max(m.At-at, 0)
		b = appendMessage(b, m, distance, i > 0 && m.Topic == topic)
		at, topic = at+distance, m.Topic
	}
	return run{b, len(messages), first, at}
}

func appendMessage(b []byte, m *messaging.Message, distance int64, same bool) []byte {
	flags := m.QoS & qosMask
	if same {
		flags |= sameTopic
	}
	if len(m.Properties) > 0 {
		flags |= hasProperties
	}
	b = append(b, flags)
	if !same {
		b = binary.AppendUvarint(b, uint64(len(m.Topic)))
		b = append(b, m.Topic...)
	}
	b = binary.AppendUvarint(b, uint64(distance))
	if len(m.Properties) > 0 {
		b = binary.AppendUvarint(b, uint64(len(m.Properties)))
		b = append(b, m.Properties...)
	}
	b = binary.AppendUvarint(b, uint64(len(m.Payload)))
	return append(b, m.Payload...)
}

// seal fills the header of a block that is complete.
func seal(block []byte) []byte {
	block[0] = version
	binary.BigEndian.PutUint32(block[1:header], crc32.Checksum(block[header:], castagnoli))
	return block
}

// The ways in which a block can be damaged.
var (
	errVersion  = errors.New("the block is of a version that is not known")
	errChecksum = errors.New("the block's checksum is wrong")
	errFormat   = errors.New("the block cannot be read")
)

// damaged tells whether an error is about the contents of a block.
func damaged(err error) bool {
	return errors.Is(err, errVersion) || errors.Is(err, errChecksum) || errors.Is(err, errFormat)
}

// decode reads a block and adds its messages to dst. They share the block's
// bytes.
func decode(dst []messaging.Message, block []byte) ([]messaging.Message, error) {
	if len(block) < header || block[0] != version {
		return dst, errVersion
	}
	d := decoder{rest: block[header:]}
	if crc32.Checksum(d.rest, castagnoli) != binary.BigEndian.Uint32(block[1:header]) {
		return dst, errChecksum
	}
	for len(d.rest) > 0 && !d.broken {
		dst = d.run(dst)
	}
	if d.broken {
		return dst, errFormat
	}
	return dst, nil
}

// decoder reads the runs of a block. Once something is wrong it gives zeros.
type decoder struct {
	rest   []byte
	broken bool
}

// run reads a run. What its first number says is not believed before it is seen.
func (d *decoder) run(dst []messaging.Message) []messaging.Message {
	count := d.number()
	at, n := binary.Varint(d.rest)
	if n <= 0 || count == 0 {
		d.broken = true
		return dst
	}
	d.rest = d.rest[n:]
	topic, known := "", false
	for ; count > 0 && !d.broken; count-- {
		m := d.message(at, topic, known)
		at, topic, known = m.At, m.Topic, true
		dst = append(dst, m)
	}
	return dst
}

// message reads a message that follows one of a time and topic.
func (d *decoder) message(at int64, topic string, known bool) (m messaging.Message) {
	flags := d.flags()
	if flags&sameTopic == 0 {
		topic = string(d.bytes())
	} else if !known {
		d.broken = true
	}
	distance := d.number()
	if distance > math.MaxInt64 || int64(distance) > math.MaxInt64-max(at, 0) {
		d.broken = true
		return m
	}
	m = messaging.Message{Topic: topic, QoS: flags & qosMask, At: at + int64(distance)}
	if flags&hasProperties != 0 {
		m.Properties = d.bytes()
	}
	m.Payload = d.bytes()
	return m
}

func (d *decoder) flags() (b byte) {
	if len(d.rest) == 0 {
		d.broken = true
		return 0
	}
	b, d.rest = d.rest[0], d.rest[1:]
	if b&qosMask > 2 || b > qosMask|sameTopic|hasProperties {
		d.broken = true
	}
	return b
}

func (d *decoder) number() uint64 {
	v, n := binary.Uvarint(d.rest)
	if n <= 0 {
		d.broken, d.rest = true, nil
		return 0
	}
	d.rest = d.rest[n:]
	return v
}

// bytes reads a length and so many bytes, which nobody can append to in place.
func (d *decoder) bytes() (b []byte) {
	n := d.number()
	if n > uint64(len(d.rest)) {
		d.broken, d.rest = true, nil
		return nil
	}
	b, d.rest = d.rest[:n:n], d.rest[n:]
	return b
}

package store

import (
	"encoding/binary"
	"math"

	"signalbox/broker/messaging"
	"signalbox/broker/records"
	"signalbox/broker/storage"
)

// A block (see [storage.OpenBlock]) holds consecutive messages as a sequence of
// runs. A run is what was encoded at once: the number of its messages, the time
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
	qosMask       = 0b0011
	sameTopic     = 0b0100
	hasProperties = 0b1000
)

// Bounds of a block. A message that is larger than blockBytes is a block of its
// own.
const (
	blockMessages = 1000
	blockBytes    = 256 << 10
	minBlockBytes = 4 << 10 // lower limit where a budget requires smaller blocks
)

// Upper bounds of the overhead of a message and of a run.
const (
	messageOverhead = 1 + 4*binary.MaxVarintLen64
	runOverhead     = 2 * binary.MaxVarintLen64
)

// size estimates the bytes that a message takes in a block.
func size(m *messaging.Message) int { return len(m.Topic) + len(m.Properties) + len(m.Payload) + 8 }

// run is a sequence of encoded messages.
type run struct {
	data            []byte
	count           int
	firstAt, lastAt int64
}

// encode encodes messages as a run. It raises times that are before last.
func encode(messages []messaging.Message, last int64) run {
	capacity := runOverhead
	for i := range messages {
		capacity += size(&messages[i]) + messageOverhead
	}
	first := max(messages[0].At, last)
	b := binary.AppendUvarint(make([]byte, 0, capacity), uint64(len(messages)))
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
		b = records.AppendBytes(b, m.Topic)
	}
	b = binary.AppendUvarint(b, uint64(distance))
	if len(m.Properties) > 0 {
		b = records.AppendBytes(b, m.Properties)
	}
	return records.AppendBytes(b, m.Payload)
}

// decode decodes a block and appends its messages to dst. They share the memory
// of the block.
func decode(dst []messaging.Message, block []byte) ([]messaging.Message, error) {
	r, err := storage.OpenBlock(block)
	if err != nil {
		return dst, err
	}
	d := decoder{r}
	for len(d.Rest) > 0 && !d.Broken {
		dst = d.run(dst)
	}
	if d.Broken {
		return dst, storage.ErrBlockFormat
	}
	return dst, nil
}

// decoder reads the runs of a block.
type decoder struct{ records.Reader }

// run reads a run. It allocates nothing by the count of messages, which may be
// damaged.
func (d *decoder) run(dst []messaging.Message) []messaging.Message {
	count, at := d.Number(), d.Signed()
	if d.Broken || count == 0 {
		d.Broken = true
		return dst
	}
	topic, hasTopic := "", false
	for ; count > 0 && !d.Broken; count-- {
		m := d.message(at, topic, hasTopic)
		at, topic, hasTopic = m.At, m.Topic, true
		dst = append(dst, m)
	}
	return dst
}

// message reads a message. The arguments are the time and topic of the message
// before.
func (d *decoder) message(at int64, topic string, hasTopic bool) (m messaging.Message) {
	flags := d.flags()
	if flags&sameTopic == 0 {
		topic = string(d.Bytes())
	} else if !hasTopic {
		d.Broken = true
	}
	distance := d.Number()
	if distance > math.MaxInt64 || int64(distance) > math.MaxInt64-max(at, 0) {
		d.Broken = true
		return m
	}
	m = messaging.Message{Topic: topic, QoS: flags & qosMask, At: at + int64(distance)}
	if flags&hasProperties != 0 {
		m.Properties = d.Bytes()
	}
	m.Payload = d.Bytes()
	return m
}

func (d *decoder) flags() byte {
	b := d.Byte()
	if b&qosMask > 2 || b > qosMask|sameTopic|hasProperties {
		d.Broken = true
	}
	return b
}

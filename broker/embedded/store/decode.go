package store

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"

	"signalbox/broker/embedded/engine"
)

// ErrDamaged reports an encoding of changes, or a snapshot, that cannot be decoded.
var ErrDamaged = errors.New("the encoding is damaged, or a newer release wrote it")

// DecodeChanges decodes what AppendChanges encoded, into memory of its own. Records that
// referred to the same message refer to the same one again. The input is not trusted: a
// length is compared with the bytes that are left before memory is allocated for it.
func DecodeChanges(b []byte) ([]*engine.Changes, error) {
	d := decoder{b: b}
	if d.bits(math.MaxUint8) != codecVersion {
		d.fail()
	}
	group := make([]*engine.Changes, 0, d.count(1))
	for range cap(group) {
		if d.err != nil {
			break
		}
		group = append(group, d.changes())
	}
	if len(d.b) > 0 {
		d.fail()
	}
	if d.err != nil {
		return nil, fmt.Errorf("decode changes: %w", d.err)
	}
	return group, nil
}

// decoder decodes from the beginning of b. After the first error it returns zeros.
type decoder struct {
	b     []byte
	err   error
	known []*engine.Message // in order of appearance
	texts [2]string         // the last publisher and username
}

func (d *decoder) fail() {
	d.b, d.err = nil, ErrDamaged
}

// number decodes a number that is not above a bound.
func (d *decoder) number(atMost uint64) uint64 {
	n, size := binary.Uvarint(d.b)
	if size <= 0 || n > atMost {
		d.fail()
		return 0
	}
	d.b = d.b[size:]
	return n
}

// id decodes an ID, which SQLite stores as a signed integer.
func (d *decoder) id() uint64 { return d.number(math.MaxInt64) }

// count decodes the number of items that follow, each of at least so many bytes.
func (d *decoder) count(bytes int) int {
	n := d.number(math.MaxInt32)
	if n > uint64(len(d.b)/bytes) {
		d.fail()
		return 0
	}
	return int(n)
}

func (d *decoder) time() int64 {
	n, size := binary.Varint(d.b)
	if size <= 0 {
		d.fail()
		return 0
	}
	d.b = d.b[size:]
	return n
}

// bits decodes a byte that has no bits but those of of.
func (d *decoder) bits(of byte) byte {
	if len(d.b) == 0 || d.b[0]&^of != 0 {
		d.fail()
		return 0
	}
	b := d.b[0]
	d.b = d.b[1:]
	return b
}

// qos returns the QoS in bits.
func (d *decoder) qos(bits byte) byte {
	if bits&qosBits == qosBits {
		d.fail()
	}
	return bits & qosBits
}

// bytes decodes a length and returns so many bytes, without a copy.
func (d *decoder) bytes() []byte {
	n := d.count(1)
	b := d.b[:n]
	d.b = d.b[n:]
	return b
}

func (d *decoder) text() string { return string(d.bytes()) }
func (d *decoder) blob() []byte { return append([]byte(nil), d.bytes()...) }

// again decodes a text that is often equal to the one before, which it then reuses.
func (d *decoder) again(last *string) string {
	if b := d.bytes(); string(b) != *last {
		*last = string(b)
	}
	return *last
}

func (d *decoder) changes() *engine.Changes {
	has := d.number(hasAll)
	return &engine.Changes{
		Owed:          has&hasOwed != 0,
		PutSessions:   decodeList(d, has&hasPutSessions, 13, (*decoder).session),
		Subscribed:    decodeList(d, has&hasSubscribed, 4, (*decoder).subscription),
		Unsubscribed:  decodeList(d, has&hasUnsubscribed, 2, (*decoder).unsubscription),
		Messages:      decodeList(d, has&hasMessages, 1, (*decoder).message),
		Enqueued:      decodeList(d, has&hasEnqueued, 4, (*decoder).queued),
		Released:      decodeList(d, has&hasReleased, 2, (*decoder).queueKey),
		Received:      decodeList(d, has&hasReceived, 2, (*decoder).incoming),
		Retained:      decodeList(d, has&hasRetained, 2, (*decoder).retained),
		Dequeued:      decodeList(d, has&hasDequeued, 2, (*decoder).queueKey),
		Forgotten:     decodeList(d, has&hasForgotten, 2, (*decoder).incoming),
		EndedSessions: decodeList(d, has&hasEndedSessions, 1, (*decoder).id),
	}
}

// decodeList decodes the records of a field, each of at least so many bytes.
func decodeList[T any](d *decoder, has uint64, bytes int, decode func(*decoder) T) []T {
	if has == 0 {
		return nil
	}
	n := d.count(bytes)
	if n == 0 {
		d.fail()
		return nil
	}
	records := make([]T, n)
	for i := 0; i < n && d.err == nil; i++ {
		records[i] = decode(d)
	}
	return records
}

func (d *decoder) session() (r engine.SessionRecord) {
	r.ID = d.id()
	bits := d.bits(sessionAnonymous | sessionClean | sessionWill)
	r.Anonymous, r.Clean = bits&sessionAnonymous != 0, bits&sessionClean != 0
	r.ClientID = d.text()
	r.Username = d.text()
	r.Version = d.bits(math.MaxUint8)
	r.KeepAlive = uint16(d.number(math.MaxUint16))
	r.ExpiryInterval = uint32(d.number(math.MaxUint32))
	r.CreatedAt = d.time()
	r.ConnectedAt = d.time()
	r.DisconnectedAt = d.time()
	r.Address = d.text()
	if bits&sessionWill != 0 {
		r.Will = d.will()
	}
	r.WillDueAt = d.time()
	r.SentSeq = d.id()
	return r
}

func (d *decoder) will() *engine.WillRecord {
	bits := d.bits(qosBits | willRetain | willHasExpiry)
	return &engine.WillRecord{
		QoS: d.qos(bits), Retain: bits&willRetain != 0, HasExpiry: bits&willHasExpiry != 0,
		Topic: d.text(), Payload: d.blob(), Properties: d.blob(),
		Delay: uint32(d.number(math.MaxUint32)), Expiry: uint32(d.number(math.MaxUint32)),
	}
}

func (d *decoder) subscription() engine.SubscriptionRecord {
	r := d.unsubscription()
	r.Options = d.bits(math.MaxUint8)
	r.ID = uint32(d.number(math.MaxUint32))
	return r
}

func (d *decoder) unsubscription() engine.SubscriptionRecord {
	return engine.SubscriptionRecord{SessionID: d.id(), Filter: d.text()}
}

func (d *decoder) message() *engine.Message {
	i := d.number(uint64(len(d.known)))
	if d.err != nil {
		return nil
	}
	if i < uint64(len(d.known)) {
		return d.known[i]
	}
	m := &engine.Message{ID: d.id()}
	bits := d.bits(qosBits | messageRetain)
	m.QoS, m.Retain = d.qos(bits), bits&messageRetain != 0
	m.Topic = d.text()
	m.Payload = d.blob()
	m.Properties = d.blob()
	m.CreatedAt = d.time()
	m.ExpiresAt = d.time()
	m.Publisher = d.again(&d.texts[0])
	m.Username = d.again(&d.texts[1])
	d.known = append(d.known, m)
	return m
}

func (d *decoder) queued() engine.QueueRecord {
	r := d.queueKey()
	r.Message = d.message()
	bits := d.bits(qosBits | queueRetain | queueReleased | queueIDs | queueShare)
	r.QoS, r.Retain, r.Released = d.qos(bits), bits&queueRetain != 0, bits&queueReleased != 0
	r.SubscriptionIDs = decodeList(d, uint64(bits&queueIDs), 1, func(d *decoder) uint32 { return uint32(d.number(math.MaxUint32)) })
	if bits&queueShare != 0 {
		r.Share = d.text()
	}
	return r
}

func (d *decoder) queueKey() engine.QueueRecord {
	return engine.QueueRecord{SessionID: d.id(), Seq: d.id()}
}

func (d *decoder) incoming() engine.IncomingRecord {
	return engine.IncomingRecord{SessionID: d.id(), PacketID: uint16(d.number(math.MaxUint16))}
}

func (d *decoder) retained() (r engine.RetainedRecord) {
	switch kind := d.number(retainedOther); kind {
	case retainedSet:
		if r.Message = d.message(); r.Message != nil {
			r.Topic = r.Message.Topic
		}
	case retainedOther:
		r.Topic = d.text()
		r.Message = d.message()
	default:
		r.Topic = d.text()
	}
	return r
}

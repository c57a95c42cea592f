package store

import (
	"errors"
	"fmt"
	"math"

	"signalbox/broker/embedded/engine"
	"signalbox/broker/records"
)

// errDamaged reports an encoding of changes, or a snapshot, that cannot be decoded.
var errDamaged = errors.New("the encoding is damaged, or a newer release wrote it")

// DecodeChanges decodes what AppendChanges encoded, into memory of its own. Records that
// referred to the same message refer to the same one again. The input is not trusted: a
// length is compared with the bytes that are left before memory is allocated for it.
func DecodeChanges(b []byte) ([]*engine.Changes, error) {
	d := decoder{Reader: records.Reader{Rest: b}}
	if d.bits(math.MaxUint8) != codecVersion {
		d.Fail()
	}
	group := make([]*engine.Changes, 0, d.Count(1))
	for range cap(group) {
		if d.Broken {
			break
		}
		group = append(group, d.changes())
	}
	if !d.Done() {
		return nil, fmt.Errorf("decode changes: %w", errDamaged)
	}
	return group, nil
}

// decoder decodes changes. After the first error it returns zeros.
type decoder struct {
	records.Reader
	known []*engine.Message // in order of appearance
	texts [2]string         // the last publisher and username
}

// id decodes an ID, which SQLite stores as a signed integer.
func (d *decoder) id() uint64 { return d.NumberUpTo(math.MaxInt64) }

// bits decodes a byte that has no bits but those of of.
func (d *decoder) bits(of byte) byte {
	b := d.Byte()
	if b&^of != 0 {
		d.Fail()
		return 0
	}
	return b
}

// qos returns the QoS in bits.
func (d *decoder) qos(bits byte) byte {
	if bits&qosBits == qosBits {
		d.Fail()
	}
	return bits & qosBits
}

// blob decodes bytes into memory of its own.
func (d *decoder) blob() []byte { return append([]byte(nil), d.Bytes()...) }

// repeatedText decodes a text that is often equal to the one before, which it then reuses.
func (d *decoder) repeatedText(last *string) string {
	if b := d.Bytes(); string(b) != *last {
		*last = string(b)
	}
	return *last
}

func (d *decoder) changes() *engine.Changes {
	has := d.NumberUpTo(hasAll)
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
	n := d.Count(bytes)
	if n == 0 {
		d.Fail()
		return nil
	}
	list := make([]T, n)
	for i := 0; i < n && !d.Broken; i++ {
		list[i] = decode(d)
	}
	return list
}

func (d *decoder) session() (r engine.SessionRecord) {
	r.ID = d.id()
	bits := d.bits(sessionAnonymous | sessionClean | sessionWill)
	r.Anonymous, r.Clean = bits&sessionAnonymous != 0, bits&sessionClean != 0
	r.ClientID = d.Text()
	r.Username = d.Text()
	r.Version = d.bits(math.MaxUint8)
	r.KeepAlive = uint16(d.NumberUpTo(math.MaxUint16))
	r.ExpiryInterval = uint32(d.NumberUpTo(math.MaxUint32))
	r.CreatedAt = d.Signed()
	r.ConnectedAt = d.Signed()
	r.DisconnectedAt = d.Signed()
	r.Address = d.Text()
	if bits&sessionWill != 0 {
		r.Will = d.will()
	}
	r.WillDueAt = d.Signed()
	r.SentSeq = d.id()
	return r
}

func (d *decoder) will() *engine.WillRecord {
	bits := d.bits(qosBits | willRetain | willHasExpiry)
	return &engine.WillRecord{
		QoS: d.qos(bits), Retain: bits&willRetain != 0, HasExpiry: bits&willHasExpiry != 0,
		Topic: d.Text(), Payload: d.blob(), Properties: d.blob(),
		Delay: uint32(d.NumberUpTo(math.MaxUint32)), Expiry: uint32(d.NumberUpTo(math.MaxUint32)),
	}
}

func (d *decoder) subscription() engine.SubscriptionRecord {
	r := d.unsubscription()
	r.Options = d.bits(math.MaxUint8)
	r.ID = uint32(d.NumberUpTo(math.MaxUint32))
	return r
}

func (d *decoder) unsubscription() engine.SubscriptionRecord {
	return engine.SubscriptionRecord{SessionID: d.id(), Filter: d.Text()}
}

func (d *decoder) message() *engine.Message {
	i := d.NumberUpTo(uint64(len(d.known)))
	if d.Broken {
		return nil
	}
	if i < uint64(len(d.known)) {
		return d.known[i]
	}
	m := &engine.Message{ID: d.id()}
	bits := d.bits(qosBits | messageRetain)
	m.QoS, m.Retain = d.qos(bits), bits&messageRetain != 0
	m.Topic = d.Text()
	m.Payload = d.blob()
	m.Properties = d.blob()
	m.CreatedAt = d.Signed()
	m.ExpiresAt = d.Signed()
	m.Publisher = d.repeatedText(&d.texts[0])
	m.Username = d.repeatedText(&d.texts[1])
	d.known = append(d.known, m)
	return m
}

func (d *decoder) queued() engine.QueueRecord {
	r := d.queueKey()
	r.Message = d.message()
	bits := d.bits(qosBits | queueRetain | queueReleased | queueIDs | queueShare)
	r.QoS, r.Retain, r.Released = d.qos(bits), bits&queueRetain != 0, bits&queueReleased != 0
	r.SubscriptionIDs = decodeList(d, uint64(bits&queueIDs), 1, func(d *decoder) uint32 { return uint32(d.NumberUpTo(math.MaxUint32)) })
	if bits&queueShare != 0 {
		r.Share = d.Text()
	}
	return r
}

func (d *decoder) queueKey() engine.QueueRecord {
	return engine.QueueRecord{SessionID: d.id(), Seq: d.id()}
}

func (d *decoder) incoming() engine.IncomingRecord {
	return engine.IncomingRecord{SessionID: d.id(), PacketID: uint16(d.NumberUpTo(math.MaxUint16))}
}

func (d *decoder) retained() (r engine.RetainedRecord) {
	switch kind := d.NumberUpTo(retainedOther); kind {
	case retainedSet:
		if r.Message = d.message(); r.Message != nil {
			r.Topic = r.Message.Topic
		}
	case retainedOther:
		r.Topic = d.Text()
		r.Message = d.message()
	default:
		r.Topic = d.Text()
	}
	return r
}

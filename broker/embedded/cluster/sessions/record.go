package sessions

import (
	"bytes"
	"math"

	"signalbox/broker/embedded/engine"
)

// session encodes a session without its queue and its Will.
func (w *writer) session(s *engine.StoredSession) {
	w.text(s.ClientID)
	w.text(s.Username)
	w.bool(s.Anonymous)
	w.byte(s.Version)
	w.bool(s.Clean)
	w.number(uint64(s.KeepAlive))
	w.number(uint64(s.ExpiryInterval))
	w.signed(s.CreatedAt)
	w.signed(s.ConnectedAt)
	w.signed(s.DisconnectedAt)
	w.text(s.Address)
	w.number(uint64(len(s.Subscriptions)))
	for _, sub := range s.Subscriptions {
		w.text(sub.Filter)
		w.byte(sub.Options)
		w.number(uint64(sub.ID))
	}
}

// The bits of a Will. The QoS has the lowest two.
const (
	willRetain = 1 << (2 + iota)
	willHasExpiry
	willKnown = 1<<(2+iota) - 1
)

// will encodes the Will of a session and when it is due; nil for none.
func (w *writer) will(m *engine.WillRecord, dueAt int64) {
	w.bool(m != nil)
	if m == nil {
		return
	}
	bits := m.QoS
	if m.Retain {
		bits |= willRetain
	}
	if m.HasExpiry {
		bits |= willHasExpiry
	}
	w.byte(bits)
	for _, p := range [][]byte{[]byte(m.Topic), m.Payload, m.Properties} {
		w.bytes(p)
	}
	for _, n := range []uint32{m.Delay, m.Expiry} {
		w.number(uint64(n))
	}
	w.signed(dueAt)
}

func (r *reader) will() (m *engine.WillRecord, dueAt int64) {
	if !r.Bool() {
		return nil, 0
	}
	bits := r.Byte()
	m = &engine.WillRecord{QoS: bits & (willRetain - 1), Retain: bits&willRetain != 0, HasExpiry: bits&willHasExpiry != 0}
	if bits > willKnown || m.QoS > 2 {
		r.Fail()
	}
	m.Topic, m.Payload, m.Properties = r.Text(), bytes.Clone(r.bytes()), bytes.Clone(r.bytes())
	m.Delay, m.Expiry = uint32(r.NumberUpTo(math.MaxUint32)), uint32(r.NumberUpTo(math.MaxUint32))
	return m, r.Signed()
}

// adjustTimes converts the times of an offer to this node's clock, given how far the other
// clock is ahead. CreatedAt stays, because it identifies the session at all nodes.
func (h *offer) adjustTimes(offset int64) {
	for _, at := range []*int64{&h.state.ConnectedAt, &h.state.DisconnectedAt, &h.state.WillDueAt} {
		if *at != 0 {
			*at -= offset
		}
	}
}

// ownership returns the ownership of the offered session.
func (h *offer) ownership() engine.Ownership {
	return engine.Ownership{
		ClientID: h.state.ClientID, Username: h.state.Username, Anonymous: h.state.Anonymous, CleanStart: h.state.Clean,
		CreatedAt: h.state.CreatedAt, Timestamp: h.arrival,
	}
}

// adjustTimes converts the times of the messages.
func (p *page) adjustTimes(offset int64) {
	for _, q := range p.queue {
		q.Message.Postpone(-offset)
	}
}

// minSubscriptionSize is the minimum encoded size of a subscription.
const minSubscriptionSize = 3

func (r *reader) session() (s engine.StoredSession) {
	s.ClientID, s.Username, s.Anonymous, s.Version = r.Text(), r.Text(), r.Bool(), r.Byte()
	s.Clean, s.KeepAlive, s.ExpiryInterval = r.Bool(), uint16(r.NumberUpTo(math.MaxUint16)), uint32(r.NumberUpTo(math.MaxUint32))
	s.CreatedAt, s.ConnectedAt, s.DisconnectedAt = r.Signed(), r.Signed(), r.Signed()
	s.Address = r.Text()
	for range r.Count(minSubscriptionSize) {
		s.Subscriptions = append(s.Subscriptions, engine.SubscriptionRecord{
			Filter: r.Text(), Options: r.Byte(), ID: uint32(r.NumberUpTo(math.MaxUint32)),
		})
	}
	return s
}

// page is a part of a session's queue.
type page struct {
	more     bool
	sentSeq  uint64   // the last message that was sent
	incoming []uint16 // QoS 2, received from the client and not released
	queue    []engine.QueueRecord
}

func (p *page) encode() []byte {
	w := newWriter(kindFetch)
	w.bool(p.more)
	w.number(p.sentSeq)
	w.number(uint64(len(p.incoming)))
	for _, id := range p.incoming {
		w.number(uint64(id))
	}
	w.number(uint64(len(p.queue)))
	for i := range p.queue {
		w.queued(&p.queue[i])
	}
	return w.b
}

// minQueuedSize is the minimum encoded size of a queued message.
const minQueuedSize = 13

func decodePage(b []byte) (p page, err error) {
	r, kind := newReader(b)
	p.more, p.sentSeq = r.Bool(), r.NumberUpTo(maxSeq)
	for range r.Count(1) {
		p.incoming = append(p.incoming, uint16(r.NumberUpTo(math.MaxUint16)))
	}
	for range r.Count(minQueuedSize) {
		p.queue = append(p.queue, r.queued())
	}
	if kind != kindFetch {
		return p, errFormat
	}
	return p, r.finish()
}

// The flags of a queued message.
const (
	flagRetain   = 1 << iota // delivered with RETAIN
	flagReleased             // PUBREC was received
	flagRetained             // published with RETAIN
	flagStamp                // the stamp follows
	flagsKnown   = 1<<iota - 1
)

func (w *writer) queued(q *engine.QueueRecord) {
	m := q.Message
	w.number(q.Seq)
	w.byte(q.QoS)
	var flags byte
	for _, f := range []struct {
		set bool
		bit byte
	}{{q.Retain, flagRetain}, {q.Released, flagReleased}, {m.Retain, flagRetained}, {m.Stamp != 0, flagStamp}} {
		if f.set {
			flags |= f.bit
		}
	}
	w.byte(flags)
	w.number(uint64(len(q.SubscriptionIDs)))
	for _, id := range q.SubscriptionIDs {
		w.number(uint64(id))
	}
	w.text(q.Share)
	w.text(m.Topic)
	w.bytes(m.Payload)
	w.bytes(m.Properties)
	w.byte(m.QoS)
	w.signed(m.CreatedAt)
	w.signed(m.ExpiresAt)
	w.text(m.Publisher)
	w.text(m.Username)
	if flags&flagStamp != 0 {
		w.number(m.Stamp)
	}
}

func (r *reader) queued() (q engine.QueueRecord) {
	q.Seq, q.QoS = r.NumberUpTo(maxSeq), r.Byte()
	flags := r.Byte()
	if q.QoS < 1 || q.QoS > 2 || flags > flagsKnown {
		r.Fail()
	}
	q.Retain, q.Released = flags&flagRetain != 0, flags&flagReleased != 0
	for range r.Count(1) {
		q.SubscriptionIDs = append(q.SubscriptionIDs, uint32(r.NumberUpTo(math.MaxUint32)))
	}
	q.Share = r.Text()
	m := &engine.Message{Topic: r.Text(), Payload: bytes.Clone(r.bytes()), Properties: bytes.Clone(r.bytes()), QoS: r.Byte(), Retain: flags&flagRetained != 0}
	m.CreatedAt, m.ExpiresAt, m.Publisher, m.Username = r.Signed(), r.Signed(), r.Text(), r.Text()
	if flags&flagStamp != 0 {
		m.Stamp = r.Number()
	}
	q.Message = m
	return q
}

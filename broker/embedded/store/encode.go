package store

import (
	"encoding/binary"

	"signalbox/broker/embedded/engine"
)

// codecVersion is the first byte of encoded changes.
const codecVersion = 1

// Bits of the fields of Changes that are not empty.
const (
	hasOwed = 1 << iota
	hasPutSessions
	hasSubscribed
	hasUnsubscribed
	hasMessages
	hasEnqueued
	hasReleased
	hasReceived
	hasRetained
	hasDequeued
	hasForgotten
	hasEndedSessions

	hasAll = hasEndedSessions<<1 - 1
)

// Bits of a session, a Will, a message and a queue row. A QoS has the lowest two.
const (
	qosBits = 3

	sessionAnonymous = 1 << 0
	sessionClean     = 1 << 1
	sessionWill      = 1 << 2

	willRetain    = 1 << 2
	willHasExpiry = 1 << 3

	messageRetain = 1 << 2

	queueRetain   = 1 << 2
	queueReleased = 1 << 3
	queueIDs      = 1 << 4
	queueShare    = 1 << 5
)

// Kinds of retained records.
const (
	retainedCleared = iota
	retainedSet     // to a message of the same topic
	retainedOther   // to a message of another topic
)

// AppendChanges appends the encoding of changes, as brokers send them to each other and
// store them in a shared log. Done and Tag are not encoded. A message to which several
// records refer is encoded once. Of dequeued and released rows, only the session and the
// sequence number are encoded: the reference counts of the receiver know the message.
func AppendChanges(dst []byte, group []*engine.Changes) []byte {
	e := encoder{b: append(dst, codecVersion)}
	e.count(len(group))
	for _, c := range group {
		e.changes(c)
	}
	return e.b
}

// encoder appends to b. Numbers are varints; texts and blobs follow their length.
type encoder struct {
	b     []byte
	last  *engine.Message         // the message encoded last
	known map[*engine.Message]int // encoded messages, numbered in order of appearance
}

func (e *encoder) changes(c *engine.Changes) {
	e.number(uint64(nonEmpty(c)))
	encodeList(e, c.PutSessions, (*encoder).session)
	encodeList(e, c.Subscribed, (*encoder).subscription)
	encodeList(e, c.Unsubscribed, (*encoder).unsubscription)
	encodeList(e, c.Messages, func(e *encoder, m **engine.Message) { e.message(*m) })
	encodeList(e, c.Enqueued, (*encoder).queued)
	encodeList(e, c.Released, (*encoder).queueKey)
	encodeList(e, c.Received, (*encoder).incoming)
	encodeList(e, c.Retained, (*encoder).retained)
	encodeList(e, c.Dequeued, (*encoder).queueKey)
	encodeList(e, c.Forgotten, (*encoder).incoming)
	encodeList(e, c.EndedSessions, func(e *encoder, id *uint64) { e.number(*id) })
}

// nonEmpty returns which fields of changes are not empty.
func nonEmpty(c *engine.Changes) (bits int) {
	for i, filled := range [...]bool{
		c.Owed, len(c.PutSessions) > 0, len(c.Subscribed) > 0, len(c.Unsubscribed) > 0, len(c.Messages) > 0, len(c.Enqueued) > 0,
		len(c.Released) > 0, len(c.Received) > 0, len(c.Retained) > 0, len(c.Dequeued) > 0, len(c.Forgotten) > 0, len(c.EndedSessions) > 0,
	} {
		if filled {
			bits |= 1 << i
		}
	}
	return bits
}

// encodeList encodes the number of records and the records; nothing if there are none.
func encodeList[T any](e *encoder, records []T, encode func(*encoder, *T)) {
	if len(records) == 0 {
		return
	}
	e.count(len(records))
	for i := range records {
		encode(e, &records[i])
	}
}

func (e *encoder) number(n uint64) { e.b = binary.AppendUvarint(e.b, n) }
func (e *encoder) count(n int)     { e.number(uint64(n)) }
func (e *encoder) time(ms int64)   { e.b = binary.AppendVarint(e.b, ms) }
func (e *encoder) bits(b byte)     { e.b = append(e.b, b) }

func (e *encoder) text(s string) {
	e.count(len(s))
	e.b = append(e.b, s...)
}

func (e *encoder) blob(b []byte) {
	e.count(len(b))
	e.b = append(e.b, b...)
}

// flag returns bit if set, else 0.
func flag(set bool, bit byte) byte {
	if set {
		return bit
	}
	return 0
}

func (e *encoder) session(r *engine.SessionRecord) {
	e.number(r.ID)
	e.bits(flag(r.Anonymous, sessionAnonymous) | flag(r.Clean, sessionClean) | flag(r.Will != nil, sessionWill))
	e.text(r.ClientID)
	e.text(r.Username)
	e.bits(r.Version)
	e.number(uint64(r.KeepAlive))
	e.number(uint64(r.ExpiryInterval))
	e.time(r.CreatedAt)
	e.time(r.ConnectedAt)
	e.time(r.DisconnectedAt)
	e.text(r.Address)
	if r.Will != nil {
		e.will(r.Will)
	}
	e.time(r.WillDueAt)
	e.number(r.SentSeq)
}

func (e *encoder) will(w *engine.WillRecord) {
	e.bits(w.QoS&qosBits | flag(w.Retain, willRetain) | flag(w.HasExpiry, willHasExpiry))
	e.text(w.Topic)
	e.blob(w.Payload)
	e.blob(w.Properties)
	e.number(uint64(w.Delay))
	e.number(uint64(w.Expiry))
}

func (e *encoder) subscription(r *engine.SubscriptionRecord) {
	e.unsubscription(r)
	e.bits(r.Options)
	e.number(uint64(r.ID))
}

func (e *encoder) unsubscription(r *engine.SubscriptionRecord) {
	e.number(r.SessionID)
	e.text(r.Filter)
}

// message encodes the number of a message, counted from 0 in order of appearance, and
// behind a new number the message itself.
func (e *encoder) message(m *engine.Message) {
	if m == e.last { // the common case: a message is enqueued for several sessions in turn
		e.count(len(e.known) - 1)
		return
	}
	if i, ok := e.known[m]; ok {
		e.count(i)
		return
	}
	if e.known == nil {
		e.known = map[*engine.Message]int{}
	}
	e.count(len(e.known))
	e.known[m], e.last = len(e.known), m
	e.number(m.ID)
	e.bits(m.QoS&qosBits | flag(m.Retain, messageRetain))
	e.text(m.Topic)
	e.blob(m.Payload)
	e.blob(m.Properties)
	e.time(m.CreatedAt)
	e.time(m.ExpiresAt)
	e.text(m.Publisher)
	e.text(m.Username)
}

func (e *encoder) queued(r *engine.QueueRecord) {
	e.queueKey(r)
	e.message(r.Message)
	e.bits(r.QoS&qosBits | flag(r.Retain, queueRetain) | flag(r.Released, queueReleased) |
		flag(len(r.SubscriptionIDs) > 0, queueIDs) | flag(r.Share != "", queueShare))
	if len(r.SubscriptionIDs) > 0 {
		e.count(len(r.SubscriptionIDs))
		for _, id := range r.SubscriptionIDs {
			e.number(uint64(id))
		}
	}
	if r.Share != "" {
		e.text(r.Share)
	}
}

func (e *encoder) queueKey(r *engine.QueueRecord) {
	e.number(r.SessionID)
	e.number(r.Seq)
}

func (e *encoder) incoming(r *engine.IncomingRecord) {
	e.number(r.SessionID)
	e.number(uint64(r.PacketID))
}

func (e *encoder) retained(r *engine.RetainedRecord) {
	switch {
	case r.Message == nil:
		e.bits(retainedCleared)
		e.text(r.Topic)
	case r.Message.Topic == r.Topic:
		e.bits(retainedSet)
		e.message(r.Message)
	default:
		e.bits(retainedOther)
		e.text(r.Topic)
		e.message(r.Message)
	}
}

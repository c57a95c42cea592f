package client

import (
	"context"
	"encoding/binary"
	"errors"
	"sync"
	"sync/atomic"

	"signalbox/broker/mqtt/packet"
)

// receiveQueue holds the unacknowledged messages above QoS 0 of a session, across its
// connections. They are acknowledged in the order of arrival [MQTT-4.6.0-2], each when it is
// settled.
type receiveQueue struct {
	mu      sync.Mutex         // guards what follows; held briefly
	out     *sendQueue         // of the connection, or nil
	serving context.Context    // of the latest connection
	pending []*receivedMessage // received on this connection and not acknowledged, in order
	byID    map[uint16]*receivedMessage

	redelivered bool // a message whose acknowledgement was lost was redelivered on this connection and accepted again

	waiting, bytes int // messages that are not settled, across connections
}

// Bounds of what is not settled. An MQTT 5 broker is told a lower limit; an older one cannot
// be told any.
const (
	maxWaiting      = 65535
	maxWaitingBytes = 256 << 20
)

// errReceiveOverflow means that the broker sends more than can be buffered. The connection is
// closed; what was not accepted is redelivered on the next one.
var errReceiveOverflow = errors.New("the broker sends messages faster than they can be stored")

// receivedMessage is a message above QoS 0.
type receivedMessage struct {
	queue     *receiveQueue
	serving   context.Context // of the connection
	id        uint16
	qos       byte
	size      int
	unsettled atomic.Int32 // results to wait for before it is acknowledged

	// The rest is guarded by queue.mu.
	settled          bool
	acked            bool // PUBREC was sent on this connection
	fromPreviousConn bool // from an earlier connection and not redelivered on this one
}

// Committed records one result. A message that could not be stored is acknowledged as well: it
// was counted as lost, and would be lost again.
func (a *receivedMessage) Committed(error) {
	if a.unsettled.Add(-1) == 0 {
		a.queue.settle(a)
	}
}

// Withdrawn reports that others use the session now, to which the broker sends the message again. It is never acknowledged.
func (a *receivedMessage) Withdrawn() bool { return a.serving.Err() != nil }

// open begins a connection. Unacknowledged messages of the session's previous connection are
// redelivered and already accepted, unless others have used the session meanwhile: then nothing is known of the messages
// that have their identifiers. Without the session they need no acknowledgement.
func (b *receiveQueue) open(c *conn, present bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	others := b.serving != c.serving
	b.out, b.serving, b.pending, b.redelivered = c.out, c.serving, nil, false
	if b.byID == nil || !present || others {
		b.byID = map[uint16]*receivedMessage{}
	}
	for _, a := range b.byID {
		a.fromPreviousConn, a.acked = true, false
	}
}

// abandon notes that others use the session from now on.
func (b *receiveQueue) abandon() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.serving = nil
}

// close ends the connection.
func (b *receiveQueue) close() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.out = nil
}

// accept records a message. It returns nil for one that was accepted before and is redelivered
// on a new connection [MQTT-4.4.0-1]. A message without DUP is a new one with the same
// identifier, unless it has QoS 2, whose identifier is free only after PUBREL [MQTT-4.3.3-10].
//
// A QoS 1 message whose acknowledgement was lost is unknown and accepted again. The QoS 1
// messages behind it are then accepted again, too, or the older one would seem the newest
// [MQTT-4.6.0-6].
func (b *receiveQueue) accept(id uint16, qos byte, dup bool, size int) (*receivedMessage, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if a := b.byID[id]; a != nil && a.qos == qos && (dup || qos == 2) && !(qos == 1 && a.fromPreviousConn && b.redelivered) {
		b.ackDuplicate(a)
		return nil, nil
	}
	if b.waiting >= maxWaiting || b.bytes+size > maxWaitingBytes {
		return nil, errReceiveOverflow
	}
	b.waiting++
	b.bytes += size
	b.redelivered = b.redelivered || dup && qos == 1
	a := &receivedMessage{queue: b, serving: b.serving, id: id, qos: qos, size: size}
	a.unsettled.Store(1)
	b.byID[id] = a
	b.pending = append(b.pending, a)
	return a, nil
}

// ackDuplicate acknowledges a redelivered message. b.mu must be held.
func (b *receiveQueue) ackDuplicate(a *receivedMessage) {
	switch {
	case a.fromPreviousConn:
		a.fromPreviousConn = false
		b.pending = append(b.pending, a)
		b.ackCommitted()
	case a.acked:
		b.sendAck(a)
	}
}

func (b *receiveQueue) settle(a *receivedMessage) {
	b.mu.Lock()
	defer b.mu.Unlock()
	a.settled = !a.Withdrawn()
	b.waiting--
	b.bytes -= a.size
	b.ackCommitted()
}

// ackCommitted acknowledges the committed messages at the front. b.mu must be held.
func (b *receiveQueue) ackCommitted() {
	if b.out == nil {
		return
	}
	n := 0
	for ; n < len(b.pending) && b.pending[n].settled; n++ {
		a := b.pending[n]
		b.pending[n] = nil
		b.sendAck(a)
		if a.qos == 1 && b.byID[a.id] == a {
			delete(b.byID, a.id)
		}
	}
	if b.pending = b.pending[n:]; len(b.pending) == 0 {
		b.pending = nil
	}
}

// sendAck sends PUBACK or PUBREC. b.mu must be held.
func (b *receiveQueue) sendAck(a *receivedMessage) {
	kind := packet.TypePuback
	if a.qos == 2 {
		kind, a.acked = packet.TypePubrec, true
	}
	b.ack(kind, a.id)
}

// release completes a QoS 2 message. PUBCOMP is sent in any case: the message may belong to an
// earlier run.
func (b *receiveQueue) release(id uint16) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if a := b.byID[id]; a != nil && a.qos == 2 && (a.acked || a.fromPreviousConn) {
		delete(b.byID, id)
	}
	b.ack(packet.TypePubcomp, id)
}

func (b *receiveQueue) ack(kind byte, id uint16) {
	if b.out != nil {
		b.out.add(func(dst []byte) []byte { return binary.BigEndian.AppendUint16(append(dst, kind<<4, 2), id) })
	}
}

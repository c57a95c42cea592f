package client

import (
	"encoding/binary"
	"errors"
	"sync"
	"sync/atomic"

	"signalbox/broker/mqtt/packet"
)

// inbox holds the messages above QoS 0 of one session that are not acknowledged,
// over all its connections. They are acknowledged in the order in which they came
// [MQTT-4.6.0-2], each when it is settled.
type inbox struct {
	mu   sync.Mutex // guards what follows; held for moments only
	out  *outbox    // of the connection; nil for none
	list []*arrival // came on this connection and are to be acknowledged, in order
	held map[uint16]*arrival

	repeats bool // a message whose acknowledgement was lost came again on this connection, and was taken again

	waiting, bytes int // messages that are not settled, of all connections
}

// The bounds of what is not settled. A broker of MQTT 5 is told a lower number, an
// older one cannot be told any.
const (
	maxWaiting      = 65535
	maxWaitingBytes = 256 << 20
)

// errFlood is a broker that sends more than can be kept meanwhile. The connection
// ends; what was not taken comes again on the next one.
var errFlood = errors.New("the broker sends messages faster than they can be kept")

// arrival is a message above QoS 0.
type arrival struct {
	inbox *inbox
	id    uint16
	qos   byte
	size  int
	parts atomic.Int32 // that must settle before it is acknowledged

	// The rest is guarded by the inbox.
	settled  bool
	answered bool // with PUBREC, on this connection
	late     bool // came on an earlier connection and was not sent again on this one
}

// Settled counts down what has to be settled. A message that could not be kept is
// acknowledged too: it was counted as lost, and would be lost again.
func (a *arrival) Settled(error) {
	if a.parts.Add(-1) == 0 {
		a.inbox.settle(a)
	}
}

// open begins a connection. What the session's earlier one brought and was not
// acknowledged comes again; it has been taken already. Without the session,
// nobody waits for an acknowledgement.
func (b *inbox) open(out *outbox, present bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.out, b.list, b.repeats = out, nil, false
	if b.held == nil || !present {
		b.held = map[uint16]*arrival{}
	}
	for _, a := range b.held {
		a.late, a.answered = true, false
	}
}

// close ends the connection.
func (b *inbox) close() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.out = nil
}

// admit takes a message in. It gives nil for one that was taken before: it was
// sent again on a new connection [MQTT-4.4.0-1]. A message without DUP is another
// one with the same identifier, unless it is of QoS 2, whose identifier is free
// only after PUBREL [MQTT-4.3.3-10].
//
// One of QoS 1 whose acknowledgement was lost is not known any more and is taken again.
// Those of QoS 1 behind it are then taken again too, or the older one would count as the
// newest [MQTT-4.6.0-6].
func (b *inbox) admit(id uint16, qos byte, dup bool, size int) (*arrival, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if a := b.held[id]; a != nil && a.qos == qos && (dup || qos == 2) && !(qos == 1 && a.late && b.repeats) {
		b.again(a)
		return nil, nil
	}
	if b.waiting >= maxWaiting || b.bytes+size > maxWaitingBytes {
		return nil, errFlood
	}
	b.waiting++
	b.bytes += size
	b.repeats = b.repeats || dup && qos == 1
	a := &arrival{inbox: b, id: id, qos: qos, size: size}
	a.parts.Store(1)
	b.held[id] = a
	b.list = append(b.list, a)
	return a, nil
}

// again acknowledges a message that was sent again. The caller holds mu.
func (b *inbox) again(a *arrival) {
	switch {
	case a.late:
		a.late = false
		b.list = append(b.list, a)
		b.flush()
	case a.answered:
		b.answer(a)
	}
}

func (b *inbox) settle(a *arrival) {
	b.mu.Lock()
	defer b.mu.Unlock()
	a.settled = true
	b.waiting--
	b.bytes -= a.size
	b.flush()
}

// flush acknowledges what is at the front and settled. The caller holds mu.
func (b *inbox) flush() {
	if b.out == nil {
		return
	}
	n := 0
	for ; n < len(b.list) && b.list[n].settled; n++ {
		a := b.list[n]
		b.list[n] = nil
		b.answer(a)
		if a.qos == 1 && b.held[a.id] == a {
			delete(b.held, a.id)
		}
	}
	if b.list = b.list[n:]; len(b.list) == 0 {
		b.list = nil
	}
}

// answer sends PUBACK or PUBREC. The caller holds mu.
func (b *inbox) answer(a *arrival) {
	kind := packet.TypePuback
	if a.qos == 2 {
		kind, a.answered = packet.TypePubrec, true
	}
	b.ack(kind, a.id)
}

// release ends the way of a message of QoS 2. PUBCOMP is the answer in any case:
// an earlier run of the service may have had the message.
func (b *inbox) release(id uint16) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if a := b.held[id]; a != nil && a.qos == 2 && (a.answered || a.late) {
		delete(b.held, id)
	}
	b.ack(packet.TypePubcomp, id)
}

func (b *inbox) ack(kind byte, id uint16) {
	if b.out != nil {
		b.out.add(func(dst []byte) []byte { return binary.BigEndian.AppendUint16(append(dst, kind<<4, 2), id) })
	}
}

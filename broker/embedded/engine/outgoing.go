package engine

import "math"

// packetIDs is the number of packet identifiers [MQTT-2.2.1].
const packetIDs = math.MaxUint16

// outgoing is what is to be sent to one client: messages of QoS 1 and 2 in the
// order of their sequence numbers, from the oldest that is not done with to the
// newest, and messages of QoS 0 between them.
//
// The packet identifier of a message is a function of its sequence number, so
// that it is the same after a restart without having been stored. Sequence
// numbers begin at 1.
type outgoing struct {
	kept   ring[entry] // QoS 1 and 2; the first has sequence number head
	head   uint64
	next   uint64 // sequence number of the first that was not sent on this connection
	flying int    // sent on this connection and not done with
	upTo   uint64 // sequence number up to which messages were sent, on whatever connection
	live   int    // not done with
	bytes  int64  // of those, and of the passing ones

	passing ring[passing] // QoS 0
}

// entry is a message of QoS 1 or 2 for one client.
type entry struct {
	message *Message // nil once released
	extra   *extra
	state   state
	qos     byte
	retain  bool
	size    int32
}

// extra is what few messages for a client have.
type extra struct {
	ids   []uint32 // subscription identifiers
	share string   // shared subscription it came by
}

// passing is a message of QoS 0 for one client. It is not sent before those
// that came earlier, unless they wait for the client's acknowledgements.
type passing struct {
	message *Message
	extra   *extra
	after   uint64 // the newest sequence number when it came
	retain  bool
}

// state is how far a message has got.
type state byte

const (
	durable  state = 1 << iota // stored, or need not be
	sent                       // at least once, on whatever connection
	released                   // PUBREC came
	done                       // acknowledged, expired or given up
)

func newOutgoing() outgoing { return outgoing{head: 1, next: 1} }

// identifier gives the packet identifier of a sequence number, 1 to 65535.
func identifier(seq uint64) uint16 { return uint16((seq-1)%packetIDs) + 1 }

// push adds a message of QoS 1 or 2 and gives its sequence number.
func (o *outgoing) push(e entry) uint64 {
	o.kept.push(e)
	o.live++
	o.bytes += int64(e.size)
	return o.head + uint64(o.kept.len()) - 1
}

// restore adds a stored message under the sequence number it had.
func (o *outgoing) restore(seq uint64, e entry) {
	if o.kept.len() == 0 {
		o.head, o.next = seq, seq
	}
	for o.tail() < seq {
		o.kept.push(entry{state: done})
	}
	o.push(e)
}

// tail is the sequence number that the next message will have.
func (o *outgoing) tail() uint64 { return o.head + uint64(o.kept.len()) }

// get gives the message of a sequence number, nil if it is gone.
func (o *outgoing) get(seq uint64) *entry {
	if seq < o.head || seq >= o.tail() {
		return nil
	}
	e := o.kept.at(int(seq - o.head))
	if e.state&done != 0 {
		return nil
	}
	return e
}

// find gives the message that was sent under a packet identifier on this
// connection, nil if there is none.
func (o *outgoing) find(id uint16) (seq uint64, e *entry) {
	if id == 0 {
		return 0, nil
	}
	ahead := (uint64(id) + packetIDs - uint64(identifier(o.head))) % packetIDs
	seq = o.head + ahead
	if seq >= o.next {
		return 0, nil
	}
	return seq, o.get(seq)
}

// finish ends a message and lets go of those at the front that are done.
func (o *outgoing) finish(seq uint64, e *entry) {
	if seq < o.next {
		o.flying--
	}
	o.live--
	o.bytes -= int64(e.size)
	*e = entry{state: done}
	for o.kept.len() > 0 && o.kept.at(0).state&done != 0 {
		o.kept.pop()
		o.head++
	}
	o.next = max(o.next, o.head)
}

// rewind makes everything that is not done with be sent again, in order, on the
// next connection [MQTT-4.4.0-1].
func (o *outgoing) rewind() {
	o.next, o.flying = o.head, 0
}

// sendable gives the next message of QoS 1 or 2 that may be sent now. If there
// is none, waits tells that one waits for the client's acknowledgements.
func (o *outgoing) sendable(window int) (seq uint64, e *entry, waits bool) {
	for o.next < o.tail() {
		e = o.kept.at(int(o.next - o.head))
		switch {
		case e.state&done != 0:
			o.next++
			continue
		case o.flying >= window || o.next-o.head >= packetIDs:
			return 0, nil, true
		case e.state&durable == 0:
			return 0, nil, false
		}
		return o.next, e, false
	}
	return 0, nil, false
}

// launch notes that the message given by sendable is on its way.
func (o *outgoing) launch(e *entry) {
	e.state |= sent
	o.upTo = max(o.upTo, o.next)
	o.next++
	o.flying++
}

// passable tells whether the first message of QoS 0 may be sent now.
func (o *outgoing) passable(waits bool) bool {
	return o.passing.len() > 0 && (waits || o.passing.at(0).after < o.next)
}

// waiting is the number of messages in the queue, sent ones included.
func (o *outgoing) waiting() int { return o.live + o.passing.len() }

// dropPassing gives up the messages of QoS 0 and tells how many they were.
func (o *outgoing) dropPassing() int {
	n := o.passing.len()
	for o.passing.len() > 0 {
		p := o.passing.pop()
		o.bytes -= int64(p.message.size())
	}
	o.passing.clear()
	return n
}

// clear lets go of all messages. Sequence numbers go on.
func (o *outgoing) clear() {
	tail := o.tail()
	*o = outgoing{head: tail, next: tail, upTo: o.upTo}
}

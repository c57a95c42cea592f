package engine

import (
	"iter"
	"math"
	"slices"
	"sort"
)

// packetIDs is the number of packet identifiers [MQTT-2.2.1].
const packetIDs = math.MaxUint16

// outgoingQueue is the queue of one client: messages of QoS 1 and 2 in the order of their
// sequence numbers, from the oldest that is not done to the newest, and messages of QoS 0
// between them.
//
// The packet identifier of a message is a function of its sequence number. So it needs no
// table, and is the same after a crash without being stored: a PUBLISH or PUBREL that is
// sent again has the identifier that it had. Two messages in flight have different
// identifiers as long as fewer than 65,535 numbers are between the oldest that is not
// acknowledged and the newest that is sent, which sendable ensures. Sequence numbers begin at
// 1 and only grow, across restarts as well; there may be gaps.
type outgoingQueue struct {
	kept     ring[entry] // QoS 1 and 2; the first is not done
	tail     uint64      // sequence number of the next message
	next     uint64      // messages from this sequence number on were not sent on this connection
	place    int         // index in kept of the first with next or more
	inflight int         // sent on this connection and not done
	upTo     uint64      // messages up to this sequence number were sent, on any connection
	live     int         // messages that are not done
	bytes    int64       // of these, and of QoS 0 messages
	memory   memory      // messages of kept that are in memory

	account *account // to which stored messages are charged; nil for none
	charged cost     // to the account

	qos0 ring[qos0Message]

	expiring bool // some messages expire
	shares   bool // some messages are of a shared subscription
	loading  bool // messages are being read from the store
}

// entry is a message of QoS 1 or 2 for one client.
type entry struct {
	message *Message // nil while it is in the store only
	extra   *extra
	seq     uint64
	id      uint64 // of the message in the store; 0 if it is not stored
	stamp   uint64 // of the message
	serial  uint64 // of the message; valid while message is nil
	expires int64  // ExpiresAt of the message
	size    int32
	state   state
	qos     byte
	retain  bool
	charged bool // to the account
}

func newEntry(m *Message, x *extra, qos byte, retain bool) entry {
	return entry{
		message: m, extra: x, stamp: m.Stamp, expires: m.ExpiresAt, size: int32(m.size()), qos: qos, retain: retain,
	}
}

// expired reports whether the message must not be delivered any more [MQTT-3.3.2-5]. A
// message that was sent at QoS 2 does not expire [MQTT-4.3.3-7].
func (e *entry) expired(now int64) bool {
	return e.expires != 0 && now >= e.expires && e.state&released == 0 && !(e.qos == 2 && e.state&sent != 0)
}

// extra is what only few messages of a client have.
type extra struct {
	ids   []uint32 // subscription identifiers
	share string   // shared subscription that matched
}

// is reports whether x, nil for none, has these identifiers and this share.
func (x *extra) is(ids []uint32, share string) bool {
	if x == nil {
		return len(ids) == 0 && share == ""
	}
	return x.share == share && slices.Equal(x.ids, ids)
}

// qos0Message is a message of QoS 0 for one client. It overtakes earlier messages only if
// they wait for the client's acknowledgements.
type qos0Message struct {
	message *Message
	extra   *extra
	after   uint64 // the newest sequence number when it was queued
	retain  bool
}

// state is the progress of a message.
type state byte

const (
	committed state = 1 << iota // stored, or need not be
	sent                        // at least once, on any connection
	released                    // PUBREC was received
	done                        // acknowledged, expired or dropped
)

func newOutgoingQueue() outgoingQueue { return outgoingQueue{tail: 1, next: 1} }

// identifier returns the packet identifier of a sequence number, 1 to 65535.
func identifier(seq uint64) uint16 { return uint16((seq-1)%packetIDs) + 1 }

// push adds a message of QoS 1 or 2 and returns its sequence number.
func (o *outgoingQueue) push(e *entry) uint64 {
	e.seq = o.tail
	*o.kept.add() = *e
	o.tail++
	o.added(e)
	return e.seq
}

// added counts a message that was added.
func (o *outgoingQueue) added(e *entry) {
	o.live++
	o.bytes += int64(e.size)
	o.memory.added(e)
}

// charge charges a stored message to the account, even above a bound.
func (o *outgoingQueue) charge(e *entry) {
	e.charged = true
	o.addCost(e.cost())
}

// take charges a message to the account within the bounds. It returns the quota that is
// reached, or quotaReasons for none.
func (o *outgoingQueue) take(e *entry) QuotaReason {
	c := e.cost()
	if !o.account.take(QuotaQueued, c.stored) {
		return QuotaQueued
	}
	if !o.account.take(QuotaSessionBytes, c.memory) {
		o.account.add(QuotaQueued, -c.stored)
		return QuotaSessionBytes
	}
	e.charged = true
	o.charged = o.charged.plus(c)
	return quotaReasons
}

// uncharge removes a message from the account.
func (o *outgoingQueue) uncharge(e *entry) {
	if e.charged {
		e.charged = false
		o.addCost(e.cost().negative())
	}
}

// unchargeAll removes all messages from the account, when they are no longer stored.
func (o *outgoingQueue) unchargeAll() {
	for e := range o.all() {
		o.uncharge(e)
	}
}

// addCost charges a cost to the account, even above a bound.
func (o *outgoingQueue) addCost(c cost) {
	o.charged = o.charged.plus(c)
	o.account.add(QuotaQueued, c.stored)
	o.account.add(QuotaSessionBytes, c.memory)
}

// entryCost is charged for a message in addition to its size, in bytes, for indexes.
const entryCost = 100

// cost is the charge of a queued message, in bytes.
type cost struct{ stored, memory int64 }

func (c cost) plus(d cost) cost { return cost{c.stored + d.stored, c.memory + d.memory} }
func (c cost) negative() cost   { return cost{-c.stored, -c.memory} }

func (e *entry) cost() cost {
	c := cost{int64(e.size) + entryCost, stubMemory}
	if e.extra != nil {
		ids := 4 * int64(len(e.extra.ids))
		c = c.plus(cost{ids + int64(len(e.extra.share)), ids + extraMemory})
	}
	return c
}

// restore adds a stored message under its sequence number, which must be greater than all
// before.
func (o *outgoingQueue) restore(seq uint64, e entry) {
	o.tail = seq
	o.charge(&e)
	o.push(&e)
	o.next = o.head()
}

// skip leaves out the sequence numbers up to upTo, which were used.
func (o *outgoingQueue) skip(upTo uint64) {
	o.tail = max(o.tail, upTo+1)
	o.next = o.head()
}

// head returns the sequence number of the oldest message that is not done, or of the next
// message.
func (o *outgoingQueue) head() uint64 {
	if o.kept.len() == 0 {
		return o.tail
	}
	return o.kept.at(0).seq
}

// search returns the index of the first message with at least a sequence number. Without
// gaps it finds it at once.
func (o *outgoingQueue) search(seq uint64) int {
	n := o.kept.len()
	if n == 0 || seq <= o.kept.at(0).seq {
		return 0
	}
	guess := int(min(seq-o.kept.at(0).seq, uint64(n)))
	if guess < n && o.kept.at(guess).seq == seq {
		return guess
	}
	return sort.Search(guess, func(i int) bool { return o.kept.at(i).seq >= seq })
}

// get returns the message of a sequence number, nil if it is done.
func (o *outgoingQueue) get(seq uint64) *entry {
	i := o.search(seq)
	if i >= o.kept.len() {
		return nil
	}
	if e := o.kept.at(i); e.seq == seq && e.state&done == 0 {
		return e
	}
	return nil
}

// all returns the messages that are not done, in order. Meanwhile none may be added or
// finished.
func (o *outgoingQueue) all() iter.Seq[*entry] {
	return func(yield func(*entry) bool) {
		for i := range o.kept.len() {
			if e := o.kept.at(i); e.state&done == 0 && !yield(e) {
				return
			}
		}
	}
}

// find returns the message that was sent under a packet identifier on this
// connection, nil if there is none.
func (o *outgoingQueue) find(id uint16) *entry {
	if id == 0 {
		return nil
	}
	head := o.head()
	ahead := (uint64(id) + packetIDs - uint64(identifier(head))) % packetIDs
	if head+ahead >= o.next {
		return nil
	}
	return o.get(head + ahead)
}

// finish marks a message as done, and removes those at the front that are done. The entry
// must not be used afterwards.
func (o *outgoingQueue) finish(e *entry) {
	if e.seq < o.next {
		o.inflight--
	}
	o.live--
	o.bytes -= int64(e.size)
	o.memory.removed(e)
	o.uncharge(e)
	*e = entry{seq: e.seq, state: done}
	for o.kept.len() > 0 && o.kept.at(0).state&done != 0 {
		o.kept.drop(keepBusyRing)
		o.place = max(o.place-1, 0)
	}
	o.next = max(o.next, o.head())
	if o.kept.len() > 2*o.live+keepRing {
		o.compact()
	}
}

// compact removes all messages that are done, so that an old one that is not done does not
// hold the memory of all that were behind it.
func (o *outgoingQueue) compact() {
	dense := ring[entry]{}
	for e := range o.all() {
		dense.push(*e)
	}
	o.kept = dense
	o.place = o.search(o.next)
}

// rewind makes everything that is not done be sent again, in order, on the next connection
// [MQTT-4.4.0-1].
func (o *outgoingQueue) rewind() {
	o.next, o.place, o.inflight = o.head(), 0, 0
}

// sendable returns the next message of QoS 1 or 2 that may be sent now. If there is none, it
// reports whether one waits for the client's acknowledgements.
func (o *outgoingQueue) sendable(window int) (e *entry, waits bool) {
	for ; o.place < o.kept.len(); o.place++ {
		e = o.kept.at(o.place)
		switch {
		case e.state&done != 0:
			continue
		case o.inflight >= window || e.seq-o.head() >= packetIDs:
			return nil, true
		case e.state&committed == 0:
			return nil, false
		}
		return e, false
	}
	return nil, false
}

// launch records that the message that sendable returned was sent.
func (o *outgoingQueue) launch(e *entry) {
	e.state |= sent
	o.upTo = max(o.upTo, e.seq)
	o.next = e.seq + 1
	o.place++
	o.inflight++
}

// qos0Sendable reports whether the first message of QoS 0 may be sent now.
func (o *outgoingQueue) qos0Sendable(waits bool) bool {
	return o.qos0.len() > 0 && (waits || o.qos0.at(0).after < o.next)
}

// waiting returns the number of messages in the queue, including sent ones.
func (o *outgoingQueue) waiting() int { return o.live + o.qos0.len() }

// dropQoS0 drops the messages of QoS 0 and returns their number.
func (o *outgoingQueue) dropQoS0() int {
	n := o.qos0.len()
	for o.qos0.len() > 0 {
		p := o.qos0.pop()
		o.bytes -= int64(p.message.size())
	}
	o.qos0.clear()
	return n
}

// clear removes all messages. Sequence numbers continue.
func (o *outgoingQueue) clear() {
	o.memory.clear()
	o.addCost(o.charged.negative())
	*o = outgoingQueue{tail: o.tail, next: o.tail, upTo: o.upTo, memory: o.memory, account: o.account,
		expiring: o.expiring, shares: o.shares, loading: o.loading}
}

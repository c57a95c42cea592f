package engine

import "signalbox/broker/mqtt/packet"

// acks are acknowledgements that a client is owed, in the order of its packets
// [MQTT-4.6.0-2]. One that waits for the store keeps back those behind.
type acks struct {
	queue ring[ack]
	first uint64 // number of the first in the queue
}

type ack struct {
	kind   byte
	id     uint16
	reason byte
	ready  bool
}

// ackQueue returns the queue of a kind of acknowledgement. What answers a message
// (PUBACK, PUBREC) and what ends an exchange (PUBREL, PUBCOMP) need no order
// between them, and the latter may have to wait until a full disk has room.
func (c *Conn) ackQueue(kind byte) *acks {
	if kind == packet.TypePuback || kind == packet.TypePubrec {
		return &c.answers
	}
	return &c.endings
}

// acknowledge sends an acknowledgement, after those that are reserved before.
func (c *Conn) acknowledge(kind byte, id uint16, reason byte) {
	c.mu.Lock()
	defer c.mu.Unlock()
	a, lane := ack{kind: kind, id: id, reason: reason, ready: true}, c.ackQueue(kind)
	if lane.queue.len() == 0 {
		c.put(a)
		return
	}
	lane.queue.push(a)
}

// reserveAck reserves the place of an acknowledgement that is sent later, and returns its
// number.
func (c *Conn) reserveAck(kind byte, id uint16, reason byte) (number uint64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	lane := c.ackQueue(kind)
	lane.queue.push(ack{kind: kind, id: id, reason: reason})
	return lane.first + uint64(lane.queue.len()) - 1
}

// sendAck sends the acknowledgement of a kind and number, as soon as those before it
// are sent; with refused it is another one.
func (c *Conn) sendAck(kind byte, number uint64, refused byte) {
	c.mu.Lock()
	defer c.mu.Unlock()
	lane := c.ackQueue(kind)
	a := lane.queue.at(int(number - lane.first))
	a.ready = true
	if refused != 0 {
		a.reason = refused
	}
	for lane.queue.len() > 0 && lane.queue.at(0).ready {
		lane.first++
		c.put(lane.queue.pop())
	}
	c.wakeReader()
}

// put queues an acknowledgement to be written. mu is held.
func (c *Conn) put(a ack) {
	if a.kind == packet.TypePuback || a.kind == packet.TypePubcomp || a.kind == packet.TypePubrec && a.reason >= packet.ReasonUnspecified {
		c.credit()
	}
	if c.ending {
		return
	}
	to := &c.after
	if a.kind == packet.TypePubrec { // the exchange goes on, so it need not wait
		to = &c.before
	}
	to.buf = packet.AppendAck(to.buf, c.version, a.kind, a.id, a.reason, "")
	to.packets++
}

// credit lets the client send one more message. It never has more than it began
// with [MQTT-4.9.0-1]: it may end exchanges of an earlier connection, or such as
// never were. mu is held.
func (c *Conn) credit() { c.quota = max(c.quota-1, 0) }

// pendingAck is an acknowledgement that goes out when its changes are stored.
type pendingAck struct {
	Changes
	conn    *Conn
	kind    byte // of the acknowledgement
	number  uint64
	session *Session
}

// Committed sends the acknowledgement, and lets a message of QoS 2 whose release
// was stored be released again on another connection. Where it was not stored
// nothing is sent that says so.
func (w *pendingAck) Committed(_ *Changes, err error) {
	if err != nil && w.session.isStored() {
		w.conn.endUncertain()
		return
	}
	for _, r := range w.Released {
		flush, _ := w.session.messageCommitted(r.Seq, true)
		w.conn.engine.flushDeferred(flush)
	}
	w.conn.sendAck(w.kind, w.number, packet.ReasonSuccess)
	w.conn.engine.flushDeferred(w.conn)
}

package engine

import "signalbox/broker/mqtt/packet"

// acks are the acknowledgements that are still to be sent to a client, in the order of its
// packets [MQTT-4.6.0-2]. One that waits for the store delays those behind it.
type acks struct {
	queue ring[ack]
	first uint64 // number of the first in the queue
}

type ack struct {
	kind   byte
	id     uint16
	reason byte
	ready  bool
	first  bool // to be sent before messages, if no other acknowledgement waits for them
}

// ackQueue returns the queue of a type of acknowledgement. PUBACK and PUBREC have one,
// PUBREL and PUBCOMP another: there is no order between them, and the latter may have to
// wait until a full disk has space.
func (c *Conn) ackQueue(kind byte) *acks {
	if kind == packet.TypePuback || kind == packet.TypePubrec {
		return &c.answers
	}
	return &c.endings
}

// acknowledge sends an acknowledgement, after those that were reserved before.
func (c *Conn) acknowledge(kind byte, id uint16, reason byte) {
	c.queueAck(ack{kind: kind, id: id, reason: reason, ready: true})
}

// acknowledgeRequest is acknowledge for a request to a control API, whose response is a message that
// follows.
func (c *Conn) acknowledgeRequest(kind byte, id uint16) {
	c.queueAck(ack{kind: kind, id: id, ready: true, first: true})
}

func (c *Conn) queueAck(a ack) {
	c.mu.Lock()
	defer c.mu.Unlock()
	lane := c.ackQueue(a.kind)
	if lane.queue.len() == 0 {
		c.put(a)
		return
	}
	lane.queue.push(a)
}

// reserveAck reserves the place of an acknowledgement that sendAck sends, and returns its
// number.
func (c *Conn) reserveAck(kind byte, id uint16, reason byte) (number uint64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	lane := c.ackQueue(kind)
	lane.queue.push(ack{kind: kind, id: id, reason: reason})
	return lane.first + uint64(lane.queue.len()) - 1
}

// sendAck sends the reserved acknowledgement of a type and number, as soon as those before
// it are sent. A refused other than 0 replaces its reason code.
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
	if a.kind == packet.TypePubrec || a.first && len(c.after.buf) == 0 { // PUBREC need not come after messages: the exchange continues
		to = &c.before
	}
	to.buf = packet.AppendAck(to.buf, c.version, a.kind, a.id, a.reason, "")
	to.packets++
}

// credit raises the send quota of the client by one, though never above its initial value
// [MQTT-4.9.0-1]: the client may end exchanges of an earlier connection, or that never
// began. mu is held.
func (c *Conn) credit() { c.quota = max(c.quota-1, 0) }

// pendingAck is an acknowledgement that is sent when its changes are committed.
type pendingAck struct {
	Changes
	conn    *Conn
	kind    byte // of the acknowledgement
	number  uint64
	session *Session
}

// Committed sends the acknowledgement. It also marks a QoS 2 message whose PUBREC was
// stored as committed, so that PUBREL can be sent again on another connection. If the
// changes failed, the connection ends without the acknowledgement.
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

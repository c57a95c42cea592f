package engine

import "signalbox/broker/embedded/engine/wire"

// acks are the acknowledgements that a client is owed, in the order of its
// packets [MQTT-4.6.0-2]. One that waits for the store keeps back those behind.
type acks struct {
	queue ring[ack]
	first uint64 // number of the first in the queue
}

type ack struct {
	kind   byte
	id     uint16
	reason byte
	ready  bool
	skip   bool // none is sent
}

// acknowledge sends an acknowledgement, after those that are owed from before.
func (c *Conn) acknowledge(kind byte, id uint16, reason byte) {
	c.mu.Lock()
	defer c.mu.Unlock()
	a := ack{kind: kind, id: id, reason: reason, ready: true}
	if c.acks.queue.len() == 0 {
		c.put(a)
		return
	}
	c.acks.queue.push(a)
}

// owe keeps a place for an acknowledgement that may be sent later.
func (c *Conn) owe(kind byte, id uint16, reason byte) (number uint64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.acks.queue.push(ack{kind: kind, id: id, reason: reason})
	return c.acks.first + uint64(c.acks.queue.len()) - 1
}

// pay sends the acknowledgement of a number, as soon as those before it are
// sent; with refused it is another one, or none.
func (c *Conn) pay(number uint64, refused byte) {
	c.mu.Lock()
	defer c.mu.Unlock()
	a := c.acks.queue.at(int(number - c.acks.first))
	a.ready = true
	if refused != 0 {
		a.reason, a.skip = refused, c.version < 5
	}
	for c.acks.queue.len() > 0 && c.acks.queue.at(0).ready {
		c.acks.first++
		c.put(c.acks.queue.pop())
	}
	c.wakeReader()
}

// put queues an acknowledgement to be written. mu is held.
func (c *Conn) put(a ack) {
	if a.kind == wire.TypePuback || a.kind == wire.TypePubcomp || a.kind == wire.TypePubrec && a.reason >= wire.ReasonUnspecified {
		c.quota--
	}
	if a.skip || c.ending {
		return
	}
	c.control = wire.AppendAck(c.control, c.version, a.kind, a.id, a.reason, "")
	c.packets++
}

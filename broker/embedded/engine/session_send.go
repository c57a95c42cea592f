package engine

import "signalbox/broker/mqtt/packet"

// fill moves what may be sent to the connection's client into a batch. Packets
// that were queued before a message came go before it: none comes meanwhile. It
// reports whether messages that come next are being read from the store; the
// connection is flushed when they are there.
func (s *Session) fill(c *Conn, b *batch) (loading bool) {
	now := s.engine.now()
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.conn != c {
		return false
	}
	c.takeBefore(b)
	var gone []QueueRecord
	for !b.full() {
		e, waits := s.out.sendable(s.sending.window)
		switch {
		case s.out.qos0Sendable(waits):
			s.sendQoS0(b, now)
		case e == nil:
			s.forget(gone)
			return false
		case e.state&released != 0:
			b.control(packet.AppendAck(nil, s.client.version, packet.TypePubrel, identifier(e.seq), 0, ""), 1)
			s.out.launch(e)
		case e.message == nil && e.expired(now):
			s.drop(DropExpired, 1)
			gone = append(gone, s.abandon(e))
		case e.message == nil:
			s.forget(gone)
			return s.load()
		default:
			d := e.delivery()
			if !s.deliver(&d, b, now) {
				gone = append(gone, s.abandon(e))
				continue
			}
			s.out.launch(e)
		}
	}
	s.forget(gone)
	return false
}

func (e *entry) delivery() delivery {
	return delivery{
		message: e.message, extra: e.extra, id: identifier(e.seq), qos: e.qos,
		dup: e.state&sent != 0, retain: e.retain,
	}
}

func (s *Session) sendQoS0(b *batch, now int64) {
	p := s.out.qos0.pop()
	s.out.bytes -= int64(p.message.size())
	d := delivery{message: p.message, extra: p.extra, retain: p.retain}
	s.deliver(&d, b, now)
}

// deliver puts a message into a batch, if it may still be sent and the client
// takes it.
func (s *Session) deliver(d *delivery, b *batch, now int64) bool {
	s.sending.aliases.apply(d)
	if s.sending.toBridge {
		d.bridgeProperties = s.engine.toBridge(d.message)
	}
	if !s.fits(d.message, *d, now) {
		return false
	}
	b.deliver(d, s.client.version, now)
	s.sending.aliases.learn(d)
	s.counts.delivered.Add(1)
	s.counts.deliveredBytes.Add(int64(len(d.message.Payload)))
	return true
}

// fits reports whether a message may still be sent, and in a packet that the
// client takes [MQTT-3.1.2-25]. What was sent at QoS 2 does not expire
// [MQTT-4.3.3-7].
func (s *Session) fits(m *Message, d delivery, now int64) bool {
	if m.expired(now) && !(d.qos == 2 && d.dup) {
		s.drop(DropExpired, 1)
		return false
	}
	if s.sending.maxPacket == 0 {
		return true
	}
	o := d.packet(s.client.version, now)
	if packet.PublishSize(s.client.version, &o) <= int(s.sending.maxPacket) {
		return true
	}
	s.drop(DropTooLarge, 1)
	return false
}

// abandon ends a message that is not delivered.
func (s *Session) abandon(e *entry) QueueRecord {
	r := QueueRecord{SessionID: s.id, Seq: e.seq}
	s.out.finish(e)
	return r
}

// forget submits that messages are done with. mu may be held: the
// store never waits here.
func (s *Session) forget(gone []QueueRecord) {
	if s.stored && len(gone) > 0 {
		s.generation.submit(&Changes{Owed: true, Dequeued: gone})
	}
}

// acknowledge handles PUBACK, PUBCOMP and a PUBREC that refuses: the message is
// done with. One that the client never had is passed over.
func (s *Session) acknowledge(c *Conn, a packet.Ack, into *Changes) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.conn != c {
		return nil
	}
	e := s.out.find(a.PacketID)
	if e == nil {
		return nil
	}
	if !expects(e, a) {
		return errWrongAck
	}
	r := s.abandon(e)
	if s.stored {
		into.Dequeued = append(into.Dequeued, r)
	}
	return nil
}

// errWrongAck ends a connection whose client acknowledges a message as one of
// another QoS, or out of turn [MQTT-4.13.1-1].
var errWrongAck = &packet.Error{Reason: packet.ReasonProtocolError, Text: "an acknowledgement that does not fit the message"}

// expects reports whether an acknowledgement is the one that ends a message.
func expects(e *entry, a packet.Ack) bool {
	switch a.Type {
	case packet.TypePuback:
		return e.qos == 1
	case packet.TypePubrec:
		return e.qos == 2 && e.state&released == 0
	default:
		return e.qos == 2 && e.state&released != 0
	}
}

// received is the outcome of a PUBREC.
type received int

const (
	unknown  received = iota // no such message was sent
	repeated                 // PUBREL may go out at once
	noted                    // PUBREL must wait until that is stored
	wrong                    // the message is none of QoS 2
)

// release notes that the client has a message of QoS 2.
func (s *Session) release(c *Conn, id uint16) (received, QueueRecord) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.conn != c {
		return unknown, QueueRecord{}
	}
	e := s.out.find(id)
	if e == nil {
		return unknown, QueueRecord{}
	}
	if e.qos != 2 {
		return wrong, QueueRecord{}
	}
	r := QueueRecord{SessionID: s.id, Seq: e.seq, Released: true}
	again := e.state&released != 0
	s.out.release(e)
	if again || !s.stored {
		return repeated, r
	}
	e.state &^= committed // until it is stored that the client has it
	return noted, r
}

package engine

import "signalbox/broker/mqtt/packet"

// fill moves the messages that may be sent now into a batch, behind the packets that were
// queued before; mu keeps further messages from being queued meanwhile. It reports whether the
// next messages are being read from the store; the connection is flushed afterwards.
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

// deliver adds a message to a batch, if it may still be sent and fits the client's maximum
// packet size.
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

// fits reports whether a message has not expired, and fits the client's maximum packet size
// [MQTT-3.1.2-25]. A message that was sent at QoS 2 does not expire [MQTT-4.3.3-7].
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

// abandon marks a message as done and returns the record to be deleted from the store.
func (s *Session) abandon(e *entry) QueueRecord {
	r := QueueRecord{SessionID: s.id, Seq: e.seq}
	s.out.finish(e)
	return r
}

// forget submits the deletion of messages that are done. mu may be held, because Submit never
// waits.
func (s *Session) forget(gone []QueueRecord) {
	if s.stored && len(gone) > 0 {
		s.generation.submit(&Changes{Owed: true, Dequeued: gone})
	}
}

// acknowledge handles PUBACK, PUBCOMP and a PUBREC with an error: the message is done. An
// unknown packet identifier is ignored.
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

// errWrongAck ends a connection whose client acknowledges a message with a packet of another
// QoS, or out of order [MQTT-4.13.1-1].
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
	repeated                 // PUBREL may be sent at once
	noted                    // PUBREL must wait for the store
	wrong                    // the message is not of QoS 2
)

// release records that the client has a message of QoS 2.
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
	e.state &^= committed // until the PUBREC is stored
	return noted, r
}

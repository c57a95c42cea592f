package engine

import "signalbox/broker/mqtt/packet"

// arrived is the outcome of a message of QoS 2 from the client.
type arrived int

const (
	isNew      arrived = iota
	isRepeated         // [MQTT-4.3.3-10]
	isTooMuch          // a quota forbids to note it
)

// incomingQoS2 is the packet identifiers of QoS 2 messages that were received and not
// released [MQTT-4.3.3-10].
type incomingQoS2 struct {
	ids map[uint16]*publication // nil once answered; the map is nil where there are none
}

// receive notes a message of QoS 2 from the client, and reports whether the store
// must, too.
func (s *Session) receive(id uint16) (found arrived, store bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if _, ok := s.incoming.ids[id]; ok {
		return isRepeated, false
	}
	if len(s.incoming.ids) >= freeIncoming && !s.reserveBytes(s.ownBytes(s.will.record.size())+incomingMemory) {
		return isTooMuch, false
	}
	s.noteIncoming(id)
	return isNew, s.stored
}

// noteIncoming notes a packet identifier of QoS 2 whose message is answered. mu is
// held.
func (s *Session) noteIncoming(id uint16) {
	if s.incoming.ids == nil {
		s.incoming.ids = map[uint16]*publication{}
	}
	if _, known := s.incoming.ids[id]; !known {
		s.incoming.ids[id] = nil
		s.recharge()
	}
}

// await notes that a message of QoS 2 is answered with its publication only.
func (s *Session) await(p *publication) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.incoming.ids[p.incoming] = p
}

// repeat keeps a place for the answer to a message of QoS 2 that came again, if
// the answer to the first is still owed.
func (s *Session) repeat(c *Conn, id uint16) (owed bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	p := s.incoming.ids[id]
	if p != nil {
		p.duplicates = append(p.duplicates, reservedAck{c, c.reserveAck(packet.TypePubrec, id, packet.ReasonSuccess)})
	}
	return p != nil
}

// answered ends what await began; a message that was refused may come again.
func (s *Session) answered(p *publication, stored bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case s.incoming.ids[p.incoming] != p: // its sender has released it unasked
	case stored:
		s.incoming.ids[p.incoming] = nil
	default:
		delete(s.incoming.ids, p.incoming)
		s.recharge()
	}
}

// unreceive takes a packet identifier back: PUBREL came, or the message was
// refused. It reports whether it was there.
func (s *Session) unreceive(id uint16) (known, store bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	_, known = s.incoming.ids[id]
	delete(s.incoming.ids, id)
	if len(s.incoming.ids) == 0 {
		s.incoming.ids = nil
	}
	s.recharge()
	return known, s.stored && known
}

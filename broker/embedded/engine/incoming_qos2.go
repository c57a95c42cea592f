package engine

import "signalbox/broker/mqtt/packet"

// arrived is what a QoS 2 packet identifier from the client turned out to be.
type arrived int

const (
	isNew      arrived = iota
	isRepeated         // [MQTT-4.3.3-10]
	isTooMuch          // it exceeds a quota
)

// incomingQoS2 has the packet identifiers of QoS 2 messages that were received and not
// released [MQTT-4.3.3-10].
type incomingQoS2 struct {
	ids map[uint16]*publication // nil once answered; the map is nil if empty
}

// receive records a QoS 2 packet identifier from the client, and reports whether it must be
// stored.
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

// noteIncoming records a QoS 2 packet identifier whose message is answered. mu is held.
func (s *Session) noteIncoming(id uint16) {
	if s.incoming.ids == nil {
		s.incoming.ids = map[uint16]*publication{}
	}
	if _, known := s.incoming.ids[id]; !known {
		s.incoming.ids[id] = nil
		s.recharge()
	}
}

// await records that a QoS 2 message is answered when its publication completes.
func (s *Session) await(p *publication) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.incoming.ids[p.incoming] = p
}

// repeat reserves the acknowledgement of a duplicate of QoS 2, if the first message is not
// answered yet. It reports whether it did.
func (s *Session) repeat(c *Conn, id uint16) (owed bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	p := s.incoming.ids[id]
	if p != nil {
		p.duplicates = append(p.duplicates, reservedAck{c, c.reserveAck(packet.TypePubrec, id, packet.ReasonSuccess)})
	}
	return p != nil
}

// answered records that the message of a publication was answered. A refused message may be
// sent again, so its packet identifier is released.
func (s *Session) answered(p *publication, stored bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case s.incoming.ids[p.incoming] != p: // the client sent PUBREL without PUBREC
	case stored:
		s.incoming.ids[p.incoming] = nil
	default:
		delete(s.incoming.ids, p.incoming)
		s.recharge()
	}
}

// unreceive releases a packet identifier, after PUBREL or a refusal. It reports whether it
// was in use, and whether that must be stored.
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

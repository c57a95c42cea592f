package conformance

import (
	"fmt"
	"testing"
)

// TestPublishQoS1IdentifierIsFree: after PUBACK the same identifier is a new
// message, also with DUP [MQTT-4.3.2-5].
func TestPublishQoS1IdentifierIsFree(t *testing.T) {
	play(t, everyVersion, func(s *scene) {
		publisher, subscriber := s.join(connect{}), s.join(connect{})
		subscriber.subscribe(1, s.topic("again"))
		for _, dup := range []bool{false, true, false} {
			publisher.publish(publish{topic: s.topic("again"), qos: 1, id: 7, dup: dup})
			subscriber.receive(publish{topic: s.topic("again"), qos: 1})
		}
	})
}

// TestPublishQoS2Once: a PUBLISH sent again before PUBREL is acknowledged again
// and delivered once [MQTT-4.3.3-10]; after PUBCOMP the same identifier is a new
// message [MQTT-4.3.3-12].
func TestPublishQoS2Once(t *testing.T) {
	play(t, everyVersion, func(s *scene) {
		publisher, subscriber := s.join(connect{}), s.join(connect{})
		topic := s.topic("once")
		subscriber.subscribe(2, topic)
		for _, payload := range []string{"first", "second"} {
			p := publish{topic: topic, qos: 2, id: 9, payload: payload}
			for range s.resends() {
				publisher.send(p.bytes(s.version))
				publisher.expectAck(typePubrec, p.id)
				p.dup = true
			}
			publisher.send(ack(s.version, typePubrel, p.id, success))
			publisher.expectAck(typePubcomp, p.id)
			subscriber.receive(publish{topic: topic, qos: 2, payload: payload})
			subscriber.expectNothing(publisher)
		}
	})
}

// resends returns how often a QoS 2 message is sent under one identifier. Mosquitto 2.0.11
// closes the connection on the third.
func (s *scene) resends() int {
	if s.on(kindMosquitto) {
		return 2
	}
	return 4
}

// TestPublishQoS2WithoutPUBREL: a QoS 2 message that its publisher has not released is
// delivered no more than once, and does not block others of that publisher [MQTT-4.3.3-8].
func TestPublishQoS2WithoutPUBREL(t *testing.T) {
	play(t, everyVersion, func(s *scene) {
		publisher, subscriber := s.join(connect{}), s.join(connect{})
		subscriber.subscribe(2, s.topic("other"))
		publisher.send(publish{topic: s.topic("held"), qos: 2, id: 100}.bytes(s.version))
		publisher.expectAck(typePubrec, 100)
		for qos := range byte(3) {
			publisher.publish(publish{topic: s.topic("other"), qos: qos})
			subscriber.receive(publish{topic: s.topic("other"), qos: qos})
		}
	})
}

// TestPublishPUBRELAgain: every PUBREL is answered by PUBCOMP, and if the identifier is not
// known, MQTT 5 may report that [MQTT-4.3.3-11].
func TestPublishPUBRELAgain(t *testing.T) {
	play(t, everyVersion, func(s *scene) {
		c := s.join(connect{})
		c.publish(publish{topic: s.topic("again"), qos: 2, id: 3})
		for _, id := range []uint16{3, 999} {
			c.send(ack(s.version, typePubrel, id, success))
			got := c.next()
			if got.kind() != typePubcomp || got.id != id || got.reason() != success && got.reason() != idNotFound {
				s.Errorf("PUBREL of an unknown identifier %d: got %v, want PUBCOMP", id, got)
			}
		}
		c.expectPong()
	})
}

// TestPublishUnknownAcknowledgements: acknowledgements of what was never sent do not close
// the connection. A PUBREC is answered by PUBREL, in MQTT 5 perhaps with reason 0x92.
func TestPublishUnknownAcknowledgements(t *testing.T) {
	play(t, everyVersion, func(s *scene) {
		for _, kind := range []byte{typePuback, typePubrec, typePubcomp} {
			c := s.join(connect{})
			c.send(ack(s.version, kind, 77, success), pingreq())
			got := c.next()
			if kind == typePubrec && got.kind() == typePubrel && got.id == 77 {
				if got.reason() != success && got.reason() != idNotFound {
					s.Errorf("PUBREC of an unknown identifier: got %v", got)
				}
				got = c.next()
			}
			if got.kind() != typePingresp {
				s.Errorf("after an unknown acknowledgement %#x: got %v, want PINGRESP", kind, got)
			}
		}
	})
}

// TestPublishIdentifiersOfBothDirections: each side numbers its own messages, so the same
// identifier may be in use in both directions [MQTT-2.2.1-2, MQTT-2.2.1-4].
func TestPublishIdentifiersOfBothDirections(t *testing.T) {
	play(t, everyVersion, func(s *scene) {
		for qos := byte(1); qos <= 2; qos++ {
			c, other := s.join(connect{}), s.join(connect{})
			topic := s.topic(fmt.Sprintf("both/%d", qos))
			c.subscribe(2, topic)
			other.publish(publish{topic: topic, qos: qos, payload: "down"})
			id := c.expectPublish(publish{topic: topic, qos: qos, payload: "down"})
			c.publish(publish{topic: s.topic("elsewhere"), qos: 1, id: id})
			c.publish(publish{topic: s.topic("elsewhere"), qos: 2, id: id})
			c.send(subscribe(s.version, id, nil, filter{s.topic("more"), 1}))
			c.expect(suback(s.version, id, 1))
			c.acknowledge(qos, id)
			c.expectPong()
		}
	})
}

// acknowledge ends a delivery of the given QoS.
func (c *client) acknowledge(qos byte, id uint16) {
	c.Helper()
	switch qos {
	case 1:
		c.send(ack(c.version, typePuback, id, success))
	case 2:
		c.send(ack(c.version, typePubrec, id, success))
		c.expect(ack(c.version, typePubrel, id, success))
		c.send(ack(c.version, typePubcomp, id, success))
	}
}

// TestPublishIdentifiersDiffer: messages in flight to one client have different
// identifiers, none of them 0 [MQTT-2.2.1-4], in 3.1.1 [MQTT-2.3.1-4].
func TestPublishIdentifiersDiffer(t *testing.T) {
	play(t, everyVersion, func(s *scene) {
		publisher, subscriber := s.join(connect{}), s.join(connect{})
		topic := s.topic("ids")
		subscriber.subscribe(2, topic)
		used := map[uint16]bool{}
		for i := range 10 {
			p := publish{topic: topic, qos: 1 + byte(i%2), payload: fmt.Sprint(i)}
			publisher.publish(p)
			id := subscriber.expectPublish(p)
			if used[id] {
				s.Errorf("identifier %d is used twice", id)
			}
			used[id] = true
		}
	})
}

// TestPublishRefusedBySubscriber: PUBACK and PUBREC with a reason of 0x80 or
// more end the delivery; nothing of it is sent again [MQTT-4.4.0-2], no PUBREL
// follows [MQTT-4.3.3-4], and the identifier and its place in the window are
// free [MQTT-4.9.0-2].
func TestPublishRefusedBySubscriber(t *testing.T) {
	play(t, onlyFive, func(s *scene) {
		publisher := s.join(connect{})
		c := s.join(persistent("refuser", s, propU16(receiveMaximum, 1)))
		topic := s.topic("refused")
		c.subscribe(2, topic)
		for i, kind := range []byte{typePuback, typePubrec, typePubrec, typePuback} {
			p := publish{topic: topic, qos: []byte{1, 2}[kind>>4&1], payload: fmt.Sprint(i)}
			publisher.publish(p)
			c.send(ack(v5, kind, c.expectPublish(p), notAuthorized))
		}
		c.expectPong()
		c.leave()
		c = s.join(persistent("refuser", s))
		c.expectPong()
	}, notOn(kindMosquitto, "2.0.11 does not free the window when a PUBREC refuses"))
}

// TestPublishAcknowledgedWrongly: an acknowledgement that does not fit the
// delivery under its identifier breaks the protocol and ends the connection
// [MQTT-4.13.1-1], in 3.1.1 [MQTT-4.8.0-1].
func TestPublishAcknowledgedWrongly(t *testing.T) {
	play(t, everyVersion, func(s *scene) {
		publisher := s.join(connect{})
		topic := s.topic("x")
		for _, wrong := range []struct{ qos, kind byte }{
			{1, typePubrec}, {1, typePubcomp}, {2, typePuback}, {2, typePubcomp},
		} {
			c := s.join(connect{})
			c.subscribe(2, topic)
			p := publish{topic: topic, qos: wrong.qos}
			publisher.publish(p)
			c.sendAnyway(ack(s.version, wrong.kind, c.expectPublish(p), success))
			if s.on(kindMosquitto) { // 2.0.11 sends no reason
				c.expectGone()
			} else {
				c.expectEnd(protocolError)
			}
		}
	})
}

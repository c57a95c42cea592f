package conformance

import (
	"fmt"
	"strings"
	"testing"
)

// TestPublishQoS delivers every QoS to subscriptions of every QoS, at the lower of the two
// [MQTT-3.8.4-8], in 3.1.1 [MQTT-3.8.4-6], and acknowledges it as its QoS requires
// [MQTT-3.3.4-1, MQTT-4.3.1-1, MQTT-4.3.2-1, MQTT-4.3.2-4, MQTT-4.3.3-8, MQTT-4.3.3-11].
func TestPublishQoS(t *testing.T) {
	play(t, everyVersion, func(s *scene) {
		publisher := s.join(connect{})
		for granted := range byte(3) {
			subscriber := s.join(connect{})
			topic := s.topic(fmt.Sprintf("qos/%d", granted))
			subscriber.subscribe(granted, topic)
			for qos := range byte(3) {
				for n := range 3 {
					p := publish{topic: topic, qos: qos, payload: fmt.Sprintf("%d at %d", n, qos)}
					publisher.publish(p)
					p.qos = min(qos, granted)
					subscriber.receive(p)
				}
			}
			subscriber.expectPong()
		}
	})
}

// TestPublishBetweenVersions sends a message from each version to each other; MQTT 3 has no
// properties [MQTT-3.3.2-1].
func TestPublishBetweenVersions(t *testing.T) {
	play(t, everyVersion, func(s *scene) {
		topic := s.topic("between")
		for _, version := range everyVersion {
			subscriber := s.join(connect{version: version})
			subscriber.subscribe(2, topic)
			for qos := range byte(3) {
				s.join(connect{}).publish(publish{topic: topic, qos: qos, payload: "greetings"})
				subscriber.receive(publish{topic: topic, qos: qos, payload: "greetings"})
			}
			subscriber.leave()
		}
		five := s.join(connect{version: v5})
		own := s.join(connect{})
		own.subscribe(2, topic)
		five.publish(publish{topic: topic, qos: 2, props: user("name", "value")})
		want := publish{topic: topic, qos: 2}
		if s.five() {
			want.props = user("name", "value")
		}
		own.receive(want)
	})
}

// TestPublishDUPIsNotPassedOn: what a subscriber receives for the first time has no DUP,
// whatever the publisher's was [MQTT-3.3.1-3].
func TestPublishDUPIsNotPassedOn(t *testing.T) {
	play(t, everyVersion, func(s *scene) {
		publisher, subscriber := s.join(connect{}), s.join(connect{})
		subscriber.subscribe(2, s.topic("dup"))
		for qos := byte(1); qos <= 2; qos++ {
			p := publish{topic: s.topic("dup"), qos: qos, payload: "again"}
			p.dup = true
			publisher.publish(p)
			p.dup = false
			subscriber.receive(p)
		}
	})
}

// TestPublishOrder: messages of one publisher on one topic arrive in their order
// [MQTT-4.6.0-5, MQTT-4.6.0-6], and acknowledgements come in the order of what
// they acknowledge [MQTT-4.6.0-2, MQTT-4.6.0-3, MQTT-4.6.0-4].
func TestPublishOrder(t *testing.T) {
	const many = 200
	play(t, everyVersion, func(s *scene) {
		for qos := range byte(3) {
			publisher, subscriber := s.join(connect{}), s.join(connect{})
			topic := s.topic(fmt.Sprintf("order/%d", qos))
			subscriber.subscribe(qos, topic)
			for i := range many {
				publisher.publish(publish{topic: topic, qos: qos, payload: fmt.Sprint(i)})
				if i%10 == 9 { // within the window of a subscriber that has not acknowledged
					subscriber.receiveRun(topic, qos, i-9, i)
				}
			}
		}
	})
}

// receiveRun expects the messages numbered first to last, all of them before it
// acknowledges any.
func (c *client) receiveRun(topic string, qos byte, first, last int) {
	c.Helper()
	var ids []uint16
	for i := first; i <= last; i++ {
		ids = append(ids, c.expectPublish(publish{topic: topic, qos: qos, payload: fmt.Sprint(i)}))
	}
	kinds := [][]byte{nil, {typePuback}, {typePubrec, typePubcomp}}[qos]
	for _, kind := range kinds {
		for _, id := range ids {
			c.send(ack(c.version, kind, id, success))
		}
		for _, id := range ids {
			if kind == typePubrec {
				c.expect(ack(c.version, typePubrel, id, success))
			}
		}
	}
}

// TestPublishAcknowledgementsInOrder: PUBACK, PUBREC and PUBCOMP arrive in the order of
// what they acknowledge [MQTT-4.6.0-2, MQTT-4.6.0-3, MQTT-4.6.0-4].
func TestPublishAcknowledgementsInOrder(t *testing.T) {
	play(t, everyVersion, func(s *scene) {
		c := s.join(connect{})
		var first, second []byte
		ids := []uint16{5, 3, 9, 1, 700}
		for _, id := range ids {
			first = cat(first, publish{topic: s.topic("x"), qos: 1, id: id}.bytes(s.version))
			second = cat(second, publish{topic: s.topic("x"), qos: 2, id: id}.bytes(s.version))
		}
		c.send(first)
		c.expectAcks(typePuback, ids)
		c.send(second)
		c.expectAcks(typePubrec, ids)
		for _, id := range ids {
			c.send(ack(s.version, typePubrel, id, success))
		}
		c.expectAcks(typePubcomp, ids)
	})
}

func (c *client) expectAcks(kind byte, ids []uint16) {
	c.Helper()
	for _, id := range ids {
		c.expectAck(kind, id)
	}
}

// TestPublishPayloads: a payload is bytes, none or many, and arrives as it was
// sent [MQTT-3.3.2-4].
func TestPublishPayloads(t *testing.T) {
	play(t, everyVersion, func(s *scene) {
		publisher, subscriber := s.join(connect{}), s.join(connect{})
		subscriber.subscribe(2, s.topic("payload"))
		for _, payload := range []string{"", "\x00", "\xff\xfe\xed\xa0\x80", strings.Repeat("\r\n\x00", 1<<16)} {
			for qos := range byte(3) {
				p := publish{topic: s.topic("payload"), qos: qos, payload: payload}
				publisher.publish(p)
				subscriber.receive(p)
			}
		}
	})
}

// TestPublishRemainingLengths covers the boundaries of the length field, which takes one
// more byte at each [MQTT-2.2.3].
func TestPublishRemainingLengths(t *testing.T) {
	play(t, everyVersion, func(s *scene) {
		publisher, subscriber := s.join(connect{}), s.join(connect{})
		topic := s.topic("length")
		subscriber.subscribe(0, topic)
		head := len(publish{topic: topic}.bytes(s.version)) - 2
		for _, border := range []int{127, 128, 16383, 16384} {
			p := publish{topic: topic, payload: strings.Repeat("x", border-head)}
			publisher.publish(p)
			subscriber.receive(p)
		}
	})
}

// TestPublishToOneself: a publisher receives its own message if it is subscribed, and its
// acknowledgement too.
func TestPublishToOneself(t *testing.T) {
	play(t, everyVersion, func(s *scene) {
		c := s.join(connect{})
		topic := s.topic("self")
		c.subscribe(1, topic)
		c.send(publish{topic: topic, qos: 1, id: 50, payload: "me"}.bytes(s.version))
		var got []string
		for range 2 {
			p := c.next()
			got = append(got, typeNames[p.first>>4])
			if p.kind() == typePublish && p.payload != "me" || p.kind() == typePuback && p.id != 50 {
				s.Errorf("got %v", p)
			}
		}
		if got[0] == got[1] {
			s.Errorf("got %v, want a PUBLISH and a PUBACK", got)
		}
	})
}

// TestPublishSubscriptionIdentifierFromClient is a protocol error
// [MQTT-3.3.4-6].
func TestPublishSubscriptionIdentifierFromClient(t *testing.T) {
	play(t, onlyFive, func(s *scene) {
		c := s.join(connect{})
		c.sendAnyway(publish{topic: s.topic("x"), props: propVarint(subscriptionIdentifier, 1)}.bytes(v5))
		c.expectEnd(protocolError, malformedPacket)
	}, notOn(kindMosquitto, "2.0.11 ignores it"))
}

// TestPublishWithoutSubscribers: MQTT 5 may report that there are no subscribers
// [MQTT-3.4.2-1]. Our broker does if Mosquitto does, at QoS 1 only.
func TestPublishWithoutSubscribers(t *testing.T) {
	play(t, everyVersion, func(s *scene) {
		c := s.join(connect{})
		for _, retain := range []bool{false, true, true} {
			c.send(publish{topic: s.topic("x"), qos: 1, id: 1, retain: retain, payload: "x"}.bytes(s.version))
			c.expect(ack(s.version, typePuback, 1, noMatchingSubscribers))
			c.send(publish{topic: s.topic("x"), qos: 2, id: 2, retain: retain, payload: "x"}.bytes(s.version))
			c.expect(ack(s.version, typePubrec, 2, success))
			c.send(ack(s.version, typePubrel, 2, success))
			c.expect(ack(s.version, typePubcomp, 2, success))
		}
		c.subscribe(0, s.topic("x"))
		c.receive(publish{topic: s.topic("x"), retain: true, payload: "x"})
		c.publish(publish{topic: s.topic("y"), qos: 1})
		s.join(connect{}).subscribe(0, s.topic("y"))
		c.send(publish{topic: s.topic("y"), qos: 1, id: 9}.bytes(s.version))
		c.expect(ack(s.version, typePuback, 9, success))
	})
}

// TestPublishToSystemTopics: messages to topics of the broker are refused, and
// acknowledged: in MQTT 5 with 0x87, before that as if they were accepted.
func TestPublishToSystemTopics(t *testing.T) {
	play(t, everyVersion, func(s *scene) {
		publisher, watcher := s.join(connect{}), s.join(connect{})
		watcher.subscribe(2, "$SYS/"+s.mark+"/#")
		for qos := range byte(3) {
			for _, retain := range []bool{false, true} {
				publisher.publishDenied(publish{topic: "$SYS/" + s.mark + "/x", qos: qos, retain: retain, payload: "x"})
			}
		}
		watcher.expectNothing(publisher)
		s.wantNoneKept("$SYS/" + s.mark + "/#")
	})
}

// persistent returns a CONNECT of a session that outlasts its connection.
func persistent(name string, s *scene, props ...[]byte) connect {
	as := connect{clientID: s.id(name), keep: true}
	if s.five() {
		as.props = cat(append(props, propU32(sessionExpiry, 3600))...)
	}
	return as
}

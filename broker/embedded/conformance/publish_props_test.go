package conformance

import (
	"fmt"
	"testing"
	"time"

	"signalbox/broker/brokertest"
)

// TestPublishPropertiesPassThrough: the properties of a message arrive unaltered, user
// properties in their order: payload format [MQTT-3.3.2-4], response topic [MQTT-3.3.2-15],
// correlation data [MQTT-3.3.2-16], user properties [MQTT-3.3.2-17, MQTT-3.3.2-18], content
// type [MQTT-3.3.2-20].
func TestPublishPropertiesPassThrough(t *testing.T) {
	play(t, onlyFive, func(s *scene) {
		publisher, subscriber := s.join(connect{}), s.join(connect{})
		topic := s.topic("props")
		subscriber.subscribe(2, topic)
		for name, props := range passedOn {
			for qos := range byte(3) {
				p := publish{topic: topic, qos: qos, payload: name, props: props}
				publisher.publish(p)
				subscriber.receive(p)
			}
		}
	})
}

// passedOn are properties that a broker must not change.
var passedOn = map[string][]byte{
	"payload format 0":  propByte(payloadFormat, 0),
	"payload format 1":  propByte(payloadFormat, 1),
	"response topic":    propText(responseTopic, "answer/here"),
	"correlation data":  propText(correlationData, "\x00\xff\x00"),
	"none to correlate": propText(correlationData, ""),
	"content type":      propText(contentType, "text/plain; charset=utf-8"),
	"no content type":   propText(contentType, ""),
	"user properties": cat(user("b", "1"), user("a", "2"), user("b", "1"), user("", ""),
		user("b", "0"), user("ключ", "значение")),
	"all": cat(user("z", "1"), propText(contentType, "c"), propText(correlationData, "id"),
		user("a", "2"), propText(responseTopic, "r"), propByte(payloadFormat, 1), user("m", "3")),
}

// TestPublishPropertiesWait: a queued message keeps them, and so does a retained one.
func TestPublishPropertiesWait(t *testing.T) {
	play(t, onlyFive, func(s *scene) {
		publisher := s.join(connect{})
		away := s.join(persistent("away", s))
		away.subscribe(2, s.topic("+"))
		away.leave()
		for qos := byte(1); qos <= 2; qos++ {
			p := publish{topic: s.topic("props"), qos: qos, retain: true, props: passedOn["all"]}
			p.payload = fmt.Sprint(qos)
			publisher.publish(p)
			late := s.join(connect{})
			late.subscribe(2, s.topic("props"))
			late.receive(p)
		}
		away = s.join(persistent("away", s))
		for qos := byte(1); qos <= 2; qos++ {
			away.receive(publish{topic: s.topic("props"), qos: qos, payload: fmt.Sprint(qos), props: passedOn["all"]})
		}
	})
}

// TestPublishExpiryIsPassedOn: the interval is passed on, less the whole seconds
// for which the message waited [MQTT-3.3.2-6].
func TestPublishExpiryIsPassedOn(t *testing.T) {
	play(t, onlyFive, func(s *scene) {
		publisher, live := s.join(connect{}), s.join(connect{})
		live.subscribe(1, s.topic("live"))
		p := publish{topic: s.topic("live"), qos: 1, props: propU32(messageExpiry, 4_000_000_000)}
		began := time.Now()
		publisher.publish(p)
		got := live.next()
		waited := int(time.Since(began)/time.Second) + 1 // at most
		live.acknowledge(1, got.id)
		if left := got.number(messageExpiry, -1); left < 4_000_000_000-waited || left > 4_000_000_000 {
			s.Errorf("got %v, want an expiry of 4,000,000,000 s or up to %d s less", got, waited)
		}

		away := s.join(persistent("away", s))
		away.subscribe(1, s.topic("waits"))
		away.leave()
		p = publish{topic: s.topic("waits"), qos: 1, retain: true, payload: "x", props: propU32(messageExpiry, 10_000)}
		publisher.publish(p)
		s.untilRetained(p.topic, "a second has gone by", func(got packet, ok bool) bool {
			return ok && got.number(messageExpiry, 10_000) <= 9998
		})
		away = s.join(persistent("away", s))
		got = away.next()
		away.acknowledge(1, got.id)
		if left := got.number(messageExpiry, 10_000); left < 1 || left > 9998 {
			s.Errorf("got %v, want an expiry of at most 9998 s", got)
		}
	})
}

// TestPublishExpires: what has waited longer than its expiry is not delivered any more
// [MQTT-3.3.2-5], whether queued, retained, or unacknowledged if its delivery has not
// started; what does not expire is delivered.
func TestPublishExpires(t *testing.T) {
	play(t, onlyFive, func(s *scene) {
		publisher := s.join(connect{})
		away := s.join(persistent("away", s))
		away.subscribe(2, s.topic("queue/#"))
		away.leave()
		full := s.join(connect{props: propU16(receiveMaximum, 1)})
		full.subscribe(2, s.topic("queue/#"))
		short := propU32(messageExpiry, 1)
		for i, props := range [][]byte{nil, short, nil, short, propU32(messageExpiry, 3600)} {
			publisher.publish(publish{topic: s.topic(fmt.Sprintf("queue/%d", i)), qos: 1 + byte(i%2), props: props})
		}
		publisher.publish(publish{topic: s.topic("clock"), qos: 1, retain: true, payload: "x", props: propU32(messageExpiry, 2)})
		s.untilRetained(s.topic("clock"), "the messages have expired", func(_ packet, ok bool) bool { return !ok })

		away = s.join(persistent("away", s))
		waiting := []*client{away, full}
		if s.on(kindMosquitto) { // 2.0.11 stalls behind an expired message
			waiting = waiting[:1]
		}
		for _, c := range waiting {
			c.receive(publish{topic: s.topic("queue/0"), qos: 1})
			c.receive(publish{topic: s.topic("queue/2"), qos: 1})
			got := c.next()
			if got.topic != s.topic("queue/4") || got.number(messageExpiry, 3600) >= 3600 {
				s.Errorf("got %v, want the message that expires in an hour", got)
			}
			c.acknowledge(1, got.id)
			c.expectPong()
		}
	})
}

// TestExpiryEndsNoDelivery: a QoS 2 message whose delivery has started does not expire any
// more; unacknowledged, it is sent again after its time [MQTT-4.3.3-7]. One that the server
// has received is completed [MQTT-4.3.3-13].
func TestExpiryEndsNoDelivery(t *testing.T) {
	play(t, onlyFive, func(s *scene) {
		publisher, c := s.join(connect{}), s.join(persistent("begun", s))
		c.subscribe(2, s.topic("x"))
		short := propU32(messageExpiry, 1)
		var first packet
		brokertest.WaitFor(s, "a message is sent before it expires", func() bool {
			publisher.publish(publish{topic: s.topic("x"), qos: 2, payload: "begun", props: short})
			mark := publish{topic: s.topic("x"), qos: 1, payload: "behind it"}
			publisher.publish(mark)
			if first = c.next(); first.payload != mark.payload {
				c.receive(mark)
				return true
			}
			c.acknowledgeFirst(first)
			return false
		})
		publisher.send(publish{topic: s.topic("y"), qos: 2, id: 99, props: short}.bytes(v5))
		publisher.expectAck(typePubrec, 99)
		c.leave()
		publisher.publish(publish{topic: s.topic("clock"), qos: 1, retain: true, payload: "x", props: propU32(messageExpiry, 2)})
		s.untilRetained(s.topic("clock"), "the messages have expired", func(_ packet, ok bool) bool { return !ok })

		c = s.resume(persistent("begun", s))
		got := c.next()
		if got.kind() != typePublish || got.payload != "begun" || got.id != first.id || got.first&8 == 0 {
			s.Fatalf("got %v, want %v again", got, first)
		}
		c.acknowledge(2, first.id)
		c.expectPong()
		publisher.send(ack(v5, typePubrel, 99, success))
		publisher.expectAck(typePubcomp, 99)
	}, notOn(kindMosquitto, "2.0.11 does not send such a message again"))
}

// untilRetained subscribes to a topic's retained message repeatedly until the condition
// holds. The second argument of holds reports whether there is one.
func (s *scene) untilRetained(topic, what string, holds func(got packet, ok bool) bool) {
	s.Helper()
	brokertest.WaitFor(s, what, func() bool {
		c := s.join(connect{})
		defer c.drop()
		id, granted, last := c.nextID(), false, packet{}
		c.send(subscribe(c.version, id, nil, filter{topic, 1}), pingreq())
		for got := c.next(); got.kind() != typePingresp; got = c.next() {
			switch {
			case got.kind() == typePublish: // a live one may come before SUBACK [MQTT-3.8.4]
				last = got
			case same(got, parse(c.version, suback(c.version, id, 1))):
				granted = true
			default:
				c.Fatalf("%s: got %v, want SUBACK %d and a message", c.name, got, id)
			}
		}
		if !granted {
			c.Fatalf("%s: no SUBACK before PINGRESP", c.name)
		}
		return holds(last, last.kind() == typePublish)
	})
}

// TestPublishAlias: an alias stands for the topic that was last sent with it
// [MQTT-3.3.2-12], on its own connection only [MQTT-3.3.2-7].
func TestPublishAlias(t *testing.T) {
	play(t, onlyFive, func(s *scene) {
		publisher, ack := s.greet(connect{})
		most := ack.number(topicAliasMaximum, 0)
		if most == 0 {
			s.Fatal("no aliases are allowed")
		}
		subscriber := s.join(connect{})
		subscriber.subscribe(2, s.topic("#"))
		other := s.join(connect{})
		for alias := 1; alias <= most; alias++ {
			publisher.publish(publish{topic: s.topic(fmt.Sprint("a", alias)), props: propU16(topicAlias, uint16(alias))})
			subscriber.receive(publish{topic: s.topic(fmt.Sprint("a", alias))})
			other.publish(publish{topic: s.topic(fmt.Sprint("b", alias)), props: propU16(topicAlias, uint16(alias))})
			subscriber.receive(publish{topic: s.topic(fmt.Sprint("b", alias))})
		}
		for qos := range byte(3) {
			publisher.publish(publish{qos: qos, props: cat(user("k", "v"), propU16(topicAlias, 1))})
			subscriber.receive(publish{topic: s.topic("a1"), qos: qos, props: user("k", "v")})
			other.publish(publish{qos: qos, props: propU16(topicAlias, uint16(most))})
			subscriber.receive(publish{topic: s.topic(fmt.Sprint("b", most)), qos: qos})
		}
		publisher.publish(publish{topic: s.topic("new"), props: propU16(topicAlias, 1)})
		subscriber.receive(publish{topic: s.topic("new")})
		publisher.publish(publish{props: propU16(topicAlias, 1), retain: true, payload: "kept"})
		subscriber.receive(publish{topic: s.topic("new"), payload: "kept"})
		late := s.join(connect{})
		late.subscribe(0, s.topic("new"))
		late.receive(publish{topic: s.topic("new"), payload: "kept", retain: true})
	})
}

// TestPublishAliasEndsWithConnection, also where the session goes on
// [MQTT-3.3.2-7].
func TestPublishAliasEndsWithConnection(t *testing.T) {
	play(t, onlyFive, func(s *scene) {
		c := s.join(persistent("alias", s))
		c.publish(publish{topic: s.topic("x"), qos: 1, props: propU16(topicAlias, 1)})
		c.leave()
		c = s.join(persistent("alias", s))
		c.sendAnyway(publish{qos: 1, id: 2, props: propU16(topicAlias, 1)}.bytes(v5))
		c.expectEnd(topicAliasInvalid, protocolError)
	})
}

// TestPublishAliasInvalid: no alias is 0 [MQTT-3.3.2-8] or larger than allowed
// [MQTT-3.3.2-9], and one that was never set is invalid.
func TestPublishAliasInvalid(t *testing.T) {
	play(t, onlyFive, func(s *scene) {
		_, ack := s.greet(connect{})
		most := uint16(ack.number(topicAliasMaximum, 0))
		for _, c := range []struct {
			topic   string
			alias   uint16
			reasons []byte
		}{
			{s.topic("x"), 0, []byte{topicAliasInvalid, protocolError, malformedPacket}},
			{s.topic("x"), most + 1, []byte{topicAliasInvalid}},
			{"", most + 1, []byte{topicAliasInvalid}},
			{"", 1, []byte{topicAliasInvalid, protocolError}},
		} {
			d := s.join(connect{})
			d.sendAnyway(publish{topic: c.topic, props: propU16(topicAlias, c.alias)}.bytes(v5))
			d.expectEnd(c.reasons...)
		}
	})
}

// TestPublishAliasToClient: a broker uses aliases only if the client allows them, none
// larger than it allows [MQTT-3.3.2-10, MQTT-3.3.2-11], and only after it has sent their
// topics on this connection [MQTT-3.3.2-7].
func TestPublishAliasToClient(t *testing.T) {
	play(t, onlyFive, func(s *scene) {
		publisher := s.join(connect{})
		for _, most := range []uint16{0, 1, 3} {
			as := persistent(fmt.Sprint("aliases", most), s, propU16(topicAliasMaximum, most))
			c := s.join(as)
			c.subscribe(1, s.topic("#"))
			for range 2 { // connections
				known := map[int]string{}
				for i := range 30 {
					p := publish{topic: s.topic(fmt.Sprint(i % 5)), qos: byte(i % 2), payload: fmt.Sprint(i)}
					publisher.publish(p)
					c.expectAliased(p, int(most), known)
				}
				c.leave()
				c = s.join(as)
			}
			c.leave()
			for i := range 5 {
				publisher.publish(publish{topic: s.topic(fmt.Sprint(i % 3)), qos: 1, payload: fmt.Sprint(i)})
			}
			c = s.join(as)
			known := map[int]string{}
			for i := range 5 {
				c.expectAliased(publish{topic: s.topic(fmt.Sprint(i % 3)), qos: 1, payload: fmt.Sprint(i)}, int(most), known)
			}
			c.send(unsubscribe(v5, 99, nil, s.topic("#")))
			c.expect(unsuback(v5, 99, success))
		}
	})
}

// expectAliased expects the PUBLISH, whose topic may be an alias.
func (c *client) expectAliased(want publish, most int, known map[int]string) {
	c.Helper()
	got := c.next()
	alias := got.number(topicAlias, 0)
	if len(got.prop(topicAlias)) > 0 && (alias < 1 || alias > most) {
		c.Fatalf("got %v: alias %d of at most %d", got, alias, most)
	}
	if alias > 0 && got.topic != "" {
		known[alias] = got.topic
	}
	if got.topic == "" {
		got.topic = known[alias]
	}
	if got.topic != want.topic || got.payload != want.payload {
		c.Fatalf("got %v, want %+v", got, want)
	}
	c.acknowledge(got.qos(), got.id)
}

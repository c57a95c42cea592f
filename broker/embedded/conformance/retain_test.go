package conformance

import (
	"fmt"
	"testing"
)

// TestRetainStores: a message with RETAIN is kept for its topic and sent to later
// subscribers, marked as such [MQTT-3.3.1-5], in 3.1.1 [MQTT-3.3.1-6, MQTT-3.3.1-8]; it
// replaces the previous one. One without RETAIN neither replaces nor removes it
// [MQTT-3.3.1-8], in 3.1.1 [MQTT-3.3.1-12].
func TestRetainStores(t *testing.T) {
	play(t, everyVersion, func(s *scene) {
		publisher := s.join(connect{})
		for qos := range byte(3) {
			topic := s.topic(fmt.Sprint("kept/", qos))
			publisher.publish(publish{topic: topic, qos: qos, payload: "before any is kept"})
			publisher.expectPong()
			s.wantNoneKept(topic)
			for _, payload := range []string{"first", "second"} {
				publisher.publish(publish{topic: topic, qos: qos, retain: true, payload: payload})
				publisher.publish(publish{topic: topic, qos: qos, payload: "passes by"})
				publisher.expectPong() // QoS 0 is not acknowledged
				for granted := range byte(3) {
					s.wantKept(topic, granted, publish{topic: topic, qos: min(qos, granted), retain: true, payload: payload})
				}
			}
		}
	})
}

// wantKept subscribes with a new client and expects nothing but the one retained message.
func (s *scene) wantKept(name string, granted byte, want publish) {
	s.Helper()
	c := s.join(connect{})
	c.subscribe(granted, name)
	c.receive(want)
	c.expectPong()
	c.leave()
}

// wantNoneKept subscribes with a new client and expects no retained message.
func (s *scene) wantNoneKept(name string) {
	s.Helper()
	c := s.join(connect{})
	c.subscribe(2, name)
	c.expectPong()
	c.leave()
}

// TestRetainClears: an empty retained message removes the topic's, is not kept
// itself [MQTT-3.3.1-6, MQTT-3.3.1-7], in 3.1.1 [MQTT-3.3.1-10, MQTT-3.3.1-11],
// and reaches subscribers as any other.
func TestRetainClears(t *testing.T) {
	play(t, everyVersion, func(s *scene) {
		publisher, live := s.join(connect{}), s.join(connect{})
		live.subscribe(2, s.topic("#"))
		for qos := range byte(3) {
			topic := s.topic(fmt.Sprint("cleared/", qos))
			for _, payload := range []string{"", "kept", "", ""} {
				publisher.publish(publish{topic: topic, qos: qos, retain: true, payload: payload})
				live.receive(publish{topic: topic, qos: qos, payload: payload})
			}
			s.wantNoneKept(topic)
		}
		s.wantNoneKept(s.topic("#"))
	})
}

// TestRetainIsOffForSubscribers that existed before: they receive RETAIN 0, unless they ask
// for it as published [MQTT-3.3.1-12, MQTT-3.3.1-13], in 3.1.1 [MQTT-3.3.1-9].
func TestRetainIsOffForSubscribers(t *testing.T) {
	play(t, everyVersion, func(s *scene) {
		publisher, plain := s.join(connect{}), s.join(connect{})
		topic := s.topic("as/published")
		plain.subscribe(2, topic)
		asPublished := s.join(connect{})
		if s.five() {
			asPublished.subscribe(2|retainAsPublished, topic)
		}
		for qos := range byte(3) {
			for _, retain := range []bool{true, false} {
				p := publish{topic: topic, qos: qos, retain: retain, payload: "x"}
				publisher.publish(p)
				if s.five() {
					asPublished.receive(p)
				}
				p.retain = false
				plain.receive(p)
			}
		}
	})
}

// TestRetainAsPublishedWaits: the flag is kept in queued messages.
func TestRetainAsPublishedWaits(t *testing.T) {
	play(t, onlyFive, func(s *scene) {
		publisher := s.join(connect{})
		away := s.join(persistent("away", s))
		away.subscribe(1|retainAsPublished, s.topic("as"))
		away.subscribe(1, s.topic("plain"))
		away.leave()
		for _, topic := range []string{"as", "plain"} {
			publisher.publish(publish{topic: s.topic(topic), qos: 1, retain: true, payload: "x"})
			publisher.publish(publish{topic: s.topic(topic), qos: 1, payload: "y"})
		}
		away = s.join(persistent("away", s))
		away.receive(publish{topic: s.topic("as"), qos: 1, retain: true, payload: "x"})
		away.receive(publish{topic: s.topic("as"), qos: 1, payload: "y"})
		away.receive(publish{topic: s.topic("plain"), qos: 1, payload: "x"})
		away.receive(publish{topic: s.topic("plain"), qos: 1, payload: "y"})
	})
}

// TestRetainOnSubscribeAgain: the same filter again delivers the retained messages again
// [MQTT-3.8.4-4], in 3.1.1 [MQTT-3.8.4-3]; a session that is resumed without SUBSCRIBE
// receives none.
func TestRetainOnSubscribeAgain(t *testing.T) {
	play(t, everyVersion, func(s *scene) {
		publisher, c := s.join(connect{}), s.join(persistent("again", s))
		topic := s.topic("again")
		kept := publish{topic: topic, qos: 1, retain: true, payload: "x"}
		publisher.publish(kept)
		for range 3 {
			c.subscribe(1, s.topic("#"))
			c.receive(kept)
			c.expectPong()
		}
		c.leave()
		c = s.join(persistent("again", s))
		c.expectPong()
		c.subscribe(1, topic)
		c.receive(kept)
	})
}

// TestRetainHandling: 0 sends retained messages with each SUBSCRIBE
// [MQTT-3.3.1-9], 1 with one for a new subscription only [MQTT-3.3.1-10], 2 never
// [MQTT-3.3.1-11].
func TestRetainHandling(t *testing.T) {
	play(t, onlyFive, func(s *scene) {
		publisher := s.join(connect{})
		topic := s.topic("x")
		kept := publish{topic: topic, qos: 1, retain: true, payload: "kept"}
		publisher.publish(kept)
		for _, step := range []struct {
			options byte
			again   bool
			sent    bool
		}{
			{0, false, true}, {0, true, true},
			{retainIfNew, false, true}, {retainIfNew, true, false},
			{retainNever, false, false}, {retainNever, true, false},
		} {
			c := s.join(connect{})
			if step.again {
				c.subscribe(0, topic) // other options, the same subscription
				c.receive(publish{topic: topic, retain: true, payload: "kept"})
			}
			c.subscribe(1|step.options, topic)
			if step.sent {
				c.receive(kept)
			}
			c.expectPong()
			publisher.publish(publish{topic: s.topic("y")})
			c.unsubscribe(topic, success)
			c.subscribe(1|step.options, topic)
			if step.options != retainNever {
				c.receive(kept) // it is new again
			}
			c.expectPong()
			c.leave()
		}
	})
}

// TestRetainHandlingOfResumedSession: a subscription of a resumed session exists already.
func TestRetainHandlingOfResumedSession(t *testing.T) {
	play(t, onlyFive, func(s *scene) {
		s.join(connect{}).publish(publish{topic: s.topic("x"), qos: 1, retain: true, payload: "kept"})
		c := s.join(persistent("resumed", s))
		c.subscribe(1|retainIfNew, s.topic("x"))
		c.receive(publish{topic: s.topic("x"), qos: 1, retain: true, payload: "kept"})
		c.leave()
		c = s.join(persistent("resumed", s))
		c.subscribe(1|retainIfNew, s.topic("x"))
		c.expectPong()
	})
}

// TestRetainManyTopics: a wildcard delivers one message for each topic.
func TestRetainManyTopics(t *testing.T) {
	const many = 300
	play(t, everyVersion, func(s *scene) {
		publisher := s.join(connect{})
		missing := map[string]bool{}
		for i := range many {
			topic := s.topic(fmt.Sprintf("many/%d/%d", i%7, i))
			publisher.publish(publish{topic: topic, qos: byte(i % 3), retain: true, payload: topic})
			missing[topic] = true
		}
		c := s.join(connect{})
		c.subscribe(2, s.topic("many/+/#"))
		for len(missing) > 0 {
			got := c.next()
			switch got.kind() {
			case typePubrel:
				c.send(ack(s.version, typePubcomp, got.id, success))
				continue
			case typePublish:
				c.acknowledgeFirst(got)
			}
			if !missing[got.topic] || got.topic != got.payload || got.first&1 == 0 {
				s.Fatalf("got %v", got)
			}
			delete(missing, got.topic)
		}
	})
}

// TestRetainSeveralFilters: each filter of one SUBSCRIBE delivers the retained messages
// that match it, with their subscription identifier.
func TestRetainSeveralFilters(t *testing.T) {
	play(t, onlyFive, func(s *scene) {
		publisher := s.join(connect{})
		publisher.publish(publish{topic: s.topic("x"), retain: true, payload: "kept"})
		publisher.expectPong()
		c := s.join(connect{})
		c.send(subscribe(v5, 1, propVarint(subscriptionIdentifier, 42), filter{s.topic("x"), 0}, filter{s.topic("y"), 0}))
		c.expect(suback(v5, 1, 0, 0))
		c.receive(publish{topic: s.topic("x"), retain: true, payload: "kept", props: propVarint(subscriptionIdentifier, 42)})
		c.expectPong()
	})
}

// TestRetainExpires: a retained message is deleted when its expiry is over [MQTT-3.3.2-5];
// one that replaces it and does not expire stays.
func TestRetainExpires(t *testing.T) {
	play(t, onlyFive, func(s *scene) {
		publisher := s.join(connect{})
		short := propU32(messageExpiry, 1)
		for _, topic := range []string{"gone", "replaced"} {
			publisher.publish(publish{topic: s.topic(topic), retain: true, payload: "short", props: short})
		}
		publisher.publish(publish{topic: s.topic("replaced"), retain: true, payload: "long"})
		publisher.expectPong()
		s.untilRetained(s.topic("gone"), "the message has expired", func(_ packet, ok bool) bool { return !ok })
		s.wantKept(s.topic("#"), 0, publish{topic: s.topic("replaced"), retain: true, payload: "long"})
	})
}

// TestRetainQoS0MayReplace: a retained message of QoS 0 replaces one of QoS 2
// [MQTT-3.3.1-7] of 3.1.1.
func TestRetainQoS0MayReplace(t *testing.T) {
	play(t, everyVersion, func(s *scene) {
		publisher := s.join(connect{})
		topic := s.topic("x")
		publisher.publish(publish{topic: topic, qos: 2, retain: true, payload: "old"})
		publisher.publish(publish{topic: topic, qos: 0, retain: true, payload: "new"})
		publisher.expectPong()
		s.wantKept(topic, 2, publish{topic: topic, retain: true, payload: "new"})
	})
}

// TestRetainSurvivesItsPublisher: retained messages belong to no session
// [MQTT-4.1.0-1].
func TestRetainSurvivesItsPublisher(t *testing.T) {
	play(t, everyVersion, func(s *scene) {
		publisher := s.join(connect{clientID: s.id("mortal")})
		publisher.publish(publish{topic: s.topic("x"), qos: 1, retain: true, payload: "stays"})
		publisher.leave()
		s.join(connect{clientID: s.id("mortal")}).leave() // a clean start
		s.wantKept(s.topic("x"), 1, publish{topic: s.topic("x"), qos: 1, retain: true, payload: "stays"})
	})
}

// TestRetainWhileSubscribing: a client that subscribes while a retained message is
// published receives it as a live or as a retained message, in any case once at least.
func TestRetainWhileSubscribing(t *testing.T) {
	play(t, everyVersion, func(s *scene) {
		publisher, c := s.join(connect{}), s.join(connect{})
		c.subscribe(0, s.topic("tick"))
		for i := range 200 {
			topic, found := s.topic(fmt.Sprint("race/", i)), false
			seen := func(got packet) { found = found || got.kind() == typePublish && got.topic == topic }
			publisher.send(publish{topic: topic, retain: true, payload: "x"}.bytes(s.version))
			c.send(subscribe(s.version, 1, nil, filter{topic, 0}), pingreq())
			for got := c.next(); got.kind() != typePingresp; got = c.next() { // what was retained has arrived by then
				seen(got)
			}
			publisher.publish(publish{topic: s.topic("tick")})
			for got := c.next(); got.topic != s.topic("tick"); got = c.next() {
				seen(got)
			}
			if !found {
				s.Fatalf("round %d: the message is lost", i)
			}
		}
	})
}

// TestRetainNotForSharedSubscriptions: a new shared subscription receives no retained
// messages.
func TestRetainNotForSharedSubscriptions(t *testing.T) {
	play(t, onlyFive, func(s *scene) {
		publisher := s.join(connect{})
		publisher.publish(publish{topic: s.topic("x"), qos: 1, retain: true, payload: "kept"})
		c := s.join(connect{})
		c.subscribe(1, "$share/g/"+s.topic("x"))
		c.expectPong()
		publisher.publish(publish{topic: s.topic("x"), qos: 1, retain: true, payload: "live"})
		c.receive(publish{topic: s.topic("x"), qos: 1, payload: "live"})
	}, notOn(kindMosquitto, "2.0.11 sends them"))
}

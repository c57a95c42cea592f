package conformance

import (
	"fmt"
	"testing"
	"time"

	"signalbox/scripts/suite"
)

// TestWill shows [MQTT-3.1.2-8] (in MQTT 5 also [MQTT-3.1.2-7]): a Will is
// published when the connection ends without DISCONNECT, with the QoS that it
// was left with [MQTT-3.1.2-9], and [MQTT-3.1.2-10] once only.
func TestWill(t *testing.T) {
	play(t, everyVersion, func(s *scene) {
		watcher := s.join(connect{})
		watcher.subscribe(2, s.topic("w"))
		for qos := range byte(3) {
			id := s.id(fmt.Sprint("d", qos))
			s.join(connect{clientID: id, will: &will{topic: s.topic("w"), payload: "gone", qos: qos}}).drop()
			watcher.receive(publish{topic: s.topic("w"), payload: "gone", qos: qos})
			s.join(connect{clientID: id}).drop()
		}
		s.expectNoWill(watcher, s.topic("w"))
	})
}

// expectNoWill expects that no Will was published that should not be: the next message is
// another Will, published later.
func (s *scene) expectNoWill(watcher *client, topic string) {
	s.Helper()
	s.dials++
	last := publish{topic: topic, payload: fmt.Sprint("last ", s.dials), qos: 1}
	s.join(connect{will: &will{topic: last.topic, payload: last.payload, qos: last.qos}}).drop()
	watcher.receive(last)
}

// TestWillDiscarded shows [MQTT-3.14.4-3] and [MQTT-3.1.2-10]: DISCONNECT discards the
// Will.
func TestWillDiscarded(t *testing.T) {
	play(t, everyVersion, func(s *scene) {
		watcher := s.join(connect{})
		watcher.subscribe(1, s.topic("w"))
		for range 5 {
			s.join(connect{will: &will{topic: s.topic("w"), payload: "wrong"}}).leave()
		}
		s.expectNoWill(watcher, s.topic("w"))
	})
}

// TestNoWill shows [MQTT-3.1.2-12] of MQTT 3.1.1: without a Will none is
// published.
func TestNoWill(t *testing.T) {
	play(t, everyVersion, func(s *scene) {
		watcher := s.join(connect{})
		watcher.subscribe(1, s.topic("#"))
		s.join(connect{}).drop()
		s.expectNoWill(watcher, s.topic("w"))
	})
}

// TestWillRetained shows [MQTT-3.1.2-16] [MQTT-3.1.2-17], in MQTT 5
// [MQTT-3.1.2-14] [MQTT-3.1.2-15].
func TestWillRetained(t *testing.T) {
	play(t, everyVersion, func(s *scene) {
		watcher := s.join(connect{})
		watcher.subscribe(1, s.topic("#"))
		for _, retain := range []bool{false, true} {
			topic := s.topic(fmt.Sprint(retain))
			s.join(connect{will: &will{topic: topic, payload: "gone", qos: 1, retain: retain}}).drop()
			watcher.receive(publish{topic: topic, payload: "gone", qos: 1})
			late := s.join(connect{})
			late.subscribe(1, topic)
			if retain {
				late.receive(publish{topic: topic, payload: "gone", qos: 1, retain: true})
			}
			late.expectPong()
		}
	})
}

// TestWillEmpty shows that a Will may be empty, and then clears what is
// retained [MQTT-3.3.1-10], in MQTT 5 [MQTT-3.3.1-6].
func TestWillEmpty(t *testing.T) {
	play(t, everyVersion, func(s *scene) {
		watcher := s.join(connect{})
		watcher.publish(publish{topic: s.topic("w"), payload: "on", qos: 1, retain: true})
		watcher.subscribe(1, s.topic("w"))
		watcher.receive(publish{topic: s.topic("w"), payload: "on", qos: 1, retain: true})
		s.join(connect{will: &will{topic: s.topic("w"), qos: 1, retain: true}}).drop()
		watcher.receive(publish{topic: s.topic("w"), qos: 1})
		late := s.join(connect{})
		late.subscribe(1, s.topic("w"))
		late.expectPong()
	})
}

// TestWillOnError shows [MQTT-3.1.2-8]: the Will of a client that is disconnected for an
// error is published.
func TestWillOnError(t *testing.T) {
	play(t, everyVersion, func(s *scene) {
		for name, packet := range map[string][]byte{
			"second CONNECT": connect{version: s.version, clientID: s.id("a")}.bytes(),
			"malformed":      {typePublish | 0x06, 0},
			"bad DISCONNECT": {typeDisconnect | 1, 0},
		} {
			if name == "second CONNECT" && s.on(kindMosquitto) {
				continue // 2.0.11 publishes no Will there
			}
			if name == "bad DISCONNECT" && s.version == v31 {
				continue // whose flags MQTT 3.1 does not check
			}
			s.each(name, func(s *scene) {
				watcher := s.join(connect{})
				watcher.subscribe(1, s.topic("w"))
				c := s.join(connect{will: &will{topic: s.topic("w"), payload: "gone", qos: 1}})
				c.send(packet)
				c.expectGone()
				watcher.receive(publish{topic: s.topic("w"), payload: "gone", qos: 1})
			})
		}
	})
}

// TestWillOnKeepAlive shows [MQTT-3.1.2-24], in MQTT 5 [MQTT-3.1.2-22]: a client that is
// silent for one and a half times its keep-alive is disconnected as if the network had
// failed.
func TestWillOnKeepAlive(t *testing.T) {
	play(t, everyVersion, func(s *scene) {
		watcher := s.join(connect{})
		watcher.subscribe(1, s.topic("w"))
		c := s.join(connect{keepAlive: 1, will: &will{topic: s.topic("w"), payload: "silent", qos: 1}})
		c.expectGone()
		watcher.receive(publish{topic: s.topic("w"), payload: "silent", qos: 1})
	})
}

// TestWillOnTakeOver shows [MQTT-3.1.2-8]: a connection that is taken over leaves its Will,
// and the next connection's own Will is unaffected.
func TestWillOnTakeOver(t *testing.T) {
	play(t, everyVersion, func(s *scene) {
		watcher := s.join(connect{})
		watcher.subscribe(1, s.topic("w"))
		as := func(payload string) connect {
			return connect{clientID: s.id("a"), will: &will{topic: s.topic("w"), payload: payload, qos: 1}}
		}
		s.join(as("first"))
		second := s.join(as("second"))
		watcher.receive(publish{topic: s.topic("w"), payload: "first", qos: 1})
		second.drop()
		watcher.receive(publish{topic: s.topic("w"), payload: "second", qos: 1})
	})
}

// TestWillBeforeReconnect shows that the Will of a persistent session belongs to the
// connection: one without a Will leaves none.
func TestWillBeforeReconnect(t *testing.T) {
	play(t, everyVersion, func(s *scene) {
		watcher := s.join(connect{})
		watcher.subscribe(1, s.topic("w"))
		as := connect{clientID: s.id("a"), keep: true, props: s.expiry(60)}
		as.will = &will{topic: s.topic("w"), payload: "gone", qos: 1}
		s.join(as).drop()
		watcher.receive(publish{topic: s.topic("w"), payload: "gone", qos: 1})
		as.will = nil
		s.join(as).drop()
		s.expectNoWill(watcher, s.topic("w"))
	})
}

// TestWillToItself shows that a Will is published while the session of its client exists,
// so that its own subscription matches [MQTT-4.5.0-1].
func TestWillToItself(t *testing.T) {
	play(t, everyVersion, func(s *scene) {
		as := connect{clientID: s.id("a"), keep: true, props: s.expiry(60)}
		as.will = &will{topic: s.topic("w"), payload: "gone", qos: 1}
		watcher := s.join(connect{})
		watcher.subscribe(1, s.topic("w"))
		c := s.join(as)
		c.subscribe(1, s.topic("w"))
		c.drop()
		watcher.receive(publish{topic: s.topic("w"), payload: "gone", qos: 1})
		as.will = nil
		s.join(as).receive(publish{topic: s.topic("w"), payload: "gone", qos: 1})
	})
}

// TestWillTopic shows [MQTT-3.1.3-10], in MQTT 5 [MQTT-3.1.3-11]: a Will's topic
// is a topic name.
func TestWillTopic(t *testing.T) {
	play(t, []byte{v311, v5}, func(s *scene) {
		for name, topic := range map[string]string{
			"empty":          "",
			"a wildcard":     "a/#",
			"one level":      "a/+/b",
			"not UTF-8":      "a\xff",
			"NUL":            "a\x00b",
			"a surrogate":    "a\xed\xa0\x80",
			"over-long form": "a\xc0\xaf",
		} {
			s.each(name, func(s *scene) {
				c := s.dial()
				c.send(connect{version: s.version, clientID: s.id("a"), will: &will{topic: topic, payload: "x"}}.bytes())
				c.expectRefusal(hangUp, malformedPacket, protocolError, topicInvalid)
			})
		}
	})
}

// TestWillLarge shows that a Will may be as long as its length field allows.
func TestWillLarge(t *testing.T) {
	play(t, everyVersion, func(s *scene) {
		payload := string(make([]byte, 65535))
		watcher := s.join(connect{})
		watcher.subscribe(1, s.topic("w"))
		s.join(connect{will: &will{topic: s.topic("w"), payload: payload, qos: 1}}).drop()
		watcher.receive(publish{topic: s.topic("w"), payload: payload, qos: 1})
	})
}

// willProperties is every property of a Will that reaches its readers.
func willProperties() []byte {
	return cat(propByte(payloadFormat, 1), propText(contentType, "text/plain"), propText(responseTopic, "answer/here"),
		propText(correlationData, "\x00\x01\xff"), user("b", "1"), user("a", "2"), user("b", "3"))
}

// TestWillProperties shows that the properties of a Will are passed on:
// [MQTT-3.3.2-4] [MQTT-3.3.2-15] [MQTT-3.3.2-16] [MQTT-3.3.2-17] [MQTT-3.3.2-18]
// [MQTT-3.3.2-20], and [MQTT-3.1.3-10] that user properties keep their order.
func TestWillProperties(t *testing.T) {
	play(t, onlyFive, func(s *scene) {
		watcher := s.join(connect{})
		watcher.subscribe(1, s.topic("w"))
		s.join(connect{will: &will{topic: s.topic("w"), payload: "gone", qos: 1, props: willProperties()}}).drop()
		watcher.receive(publish{topic: s.topic("w"), payload: "gone", qos: 1, props: willProperties()})
	})
}

// TestWillExpiry shows that the Message Expiry Interval of a Will starts when it is
// published, and [MQTT-3.3.2-6] the rest of it reaches the subscriber.
func TestWillExpiry(t *testing.T) {
	play(t, onlyFive, func(s *scene) {
		watcher := s.join(connect{})
		watcher.subscribe(0, s.topic("w"))
		began := time.Now()
		s.join(connect{will: &will{topic: s.topic("w"), payload: "gone", props: propU32(messageExpiry, 1000)}}).drop()
		got := watcher.next()
		waited := int(time.Since(began)/time.Second) + 1 // at most
		if left := got.number(messageExpiry, 0); got.payload != "gone" || left < 1000-waited || left > 1000 {
			s.Errorf("got %v with an expiry of %d seconds, want 1000 or up to %d less", got, left, waited)
		}
	})
}

// TestWillDelay shows [MQTT-3.1.2-8] and [MQTT-3.1.3-9]: a Will waits for its delay, and is
// not sent if its client reconnects before.
func TestWillDelay(t *testing.T) {
	play(t, onlyFive, func(s *scene) { s.untilInTime((*scene).delayWills) })
}

// untilInTime repeats a test that is about seconds until the machine was not too busy for
// it: until the test reports that its result is valid.
func (s *scene) untilInTime(test func(s *scene) (inTime bool)) {
	s.Helper()
	for began := time.Now(); ; {
		attempt := *s
		attempt.mark = fmt.Sprintf("s%d", scenes.Add(1))
		if test(&attempt) {
			return
		}
		if time.Since(began) > suite.HangLimit {
			s.Fatal("the machine is too busy, or the broker is late")
		}
	}
}

// delayWills disconnects clients whose Wills have delays. It reports whether one
// reconnected in time, and no Will was so late that another one was first.
func (s *scene) delayWills() (inTime bool) {
	watcher := s.join(connect{})
	watcher.subscribe(1, s.topic("w"))
	delays := map[string]uint32{"slow": 4, "quick": 1, "back": 2, "now": 0}
	as := func(name string) connect {
		return connect{clientID: s.id(name), keep: true, props: s.expiry(60),
			will: &will{topic: s.topic("w"), payload: name, qos: 1, props: propU32(willDelay, delays[name])}}
	}
	began := time.Now()
	for _, name := range []string{"slow", "quick", "back", "now"} {
		s.join(as(name)).drop()
	}
	s.join(as("back"))
	if time.Since(began) >= 2*time.Second {
		return false
	}
	for _, name := range []string{"now", "quick", "slow"} {
		got := watcher.next()
		early := time.Since(began) < time.Duration(delays[got.payload])*time.Second
		if got.kind() != typePublish || got.payload == "back" || got.payload != name && early {
			s.Fatalf("got %v, want the Will of %q", got, name)
		}
		if got.payload != name {
			return false
		}
		watcher.acknowledgeFirst(got)
	}
	return true
}

// TestWillDelayEndsWithSession shows [MQTT-3.1.2-8]: a Will does not wait longer than its
// session lasts, whether the session expires, was not persistent, or is ended by a clean
// start.
func TestWillDelayEndsWithSession(t *testing.T) {
	play(t, onlyFive, func(s *scene) {
		watcher := s.join(connect{})
		watcher.subscribe(1, s.topic("w"))
		late := func(name string, props []byte) connect {
			return connect{clientID: s.id(name), props: props,
				will: &will{topic: s.topic("w"), payload: name, qos: 1, props: propU32(willDelay, 1000)}}
		}
		arrives := func(name string) {
			watcher.receive(publish{topic: s.topic("w"), payload: name, qos: 1})
		}
		s.join(late("unkept", nil)).drop()
		arrives("unkept")
		s.join(late("brief", s.expiry(1))).drop()
		arrives("brief")
		s.join(late("renewed", s.expiry(60))).drop()
		s.join(connect{clientID: s.id("renewed")})
		arrives("renewed")
	}, notOn(kindMosquitto, "2.0.11 forgets a delayed Will when a clean start ends its session"))
}

// TestWillDelayOnTakeOver shows [MQTT-3.1.3-9]: a take-over within the delay discards the
// Will, if the session is resumed.
func TestWillDelayOnTakeOver(t *testing.T) {
	play(t, onlyFive, func(s *scene) { s.untilInTime((*scene).takeOverWithWill) })
}

// takeOverWithWill reports whether the take-over was within the delay.
func (s *scene) takeOverWithWill() (inTime bool) {
	watcher := s.join(connect{})
	watcher.subscribe(1, s.topic("w"))
	as := connect{clientID: s.id("a"), keep: true, props: s.expiry(60)}
	as.will = &will{topic: s.topic("w"), payload: "wrong", qos: 1, props: propU32(willDelay, 1)}
	first := s.join(as)
	as.will = nil
	began := time.Now()
	s.join(as)
	if time.Since(began) >= time.Second {
		return false
	}
	first.expectEnd(sessionTakenOver)
	after := connect{will: &will{topic: s.topic("w"), payload: "right", qos: 1, props: propU32(willDelay, 3)}}
	after.props = s.expiry(60)
	s.join(after).drop()
	watcher.receive(publish{topic: s.topic("w"), payload: "right", qos: 1})
	return true
}

// TestWillOnDisconnectWithWill shows that DISCONNECT with reason 4 keeps the Will, and
// [MQTT-3.14.4-3] that only reason 0 discards it.
func TestWillOnDisconnectWithWill(t *testing.T) {
	play(t, onlyFive, func(s *scene) {
		watcher := s.join(connect{})
		watcher.subscribe(1, s.topic("w"))
		for _, reason := range []byte{disconnectWithWill, unspecifiedError, malformedPacket, protocolError, 0x83,
			topicInvalid, receiveMaximumExceeded, topicAliasInvalid, packetTooLarge, 0x96, 0x97, 0x98, 0x99} {
			if reason != disconnectWithWill && s.on(kindMosquitto) {
				continue // 2.0.11 publishes the Will for reason 4 only
			}
			name := fmt.Sprintf("reason %02x", reason)
			s.join(connect{will: &will{topic: s.topic("w"), payload: name, qos: 1}}).quit(reason, nil)
			watcher.receive(publish{topic: s.topic("w"), payload: name, qos: 1})
		}
	})
}

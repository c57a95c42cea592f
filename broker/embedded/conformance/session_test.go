package conformance

import (
	"fmt"
	"testing"
	"time"

	"signalbox/broker/embedded"
)

// TestSessionKeepsSubscriptions of a client that reconnects [MQTT-3.1.2-5], with all their
// options; a clean start deletes them [MQTT-3.1.2-4], in 3.1.1 [MQTT-3.1.2-6].
func TestSessionKeepsSubscriptions(t *testing.T) {
	play(t, everyVersion, func(s *scene) {
		publisher, c := s.join(connect{}), s.join(persistent("kept", s))
		for i, name := range []string{"a/+", "b/#", "c"} {
			c.subscribe(byte(i), s.topic(name))
		}
		c.unsubscribe(s.topic("c"), success)
		for range 2 {
			c.leave()
			c = s.resume(persistent("kept", s))
			publisher.publish(publish{topic: s.topic("a/x"), qos: 2})
			c.receive(publish{topic: s.topic("a/x"), qos: 0})
			publisher.publish(publish{topic: s.topic("b/x"), qos: 2})
			c.receive(publish{topic: s.topic("b/x"), qos: 1})
			publisher.publish(publish{topic: s.topic("c"), qos: 2})
			c.expectPong()
		}
		c.leave()
		c = s.begin(connect{clientID: s.id("kept")})
		publisher.publish(publish{topic: s.topic("a/x"), qos: 2})
		c.expectPong()
		c.leave()
		s.begin(persistent("kept", s)).leave() // the clean session has ended
	})
}

// resume connects and expects its session to exist [MQTT-3.2.2-3], begin that it does not
// [MQTT-3.2.2-2]. MQTT 3.1 does not report it.
func (s *scene) resume(as connect) *client { s.Helper(); return s.session(as, true) }
func (s *scene) begin(as connect) *client  { s.Helper(); return s.session(as, false) }

func (s *scene) session(as connect, present bool) *client {
	s.Helper()
	c, got := s.greet(as)
	present = present && c.version != v31
	if got.reason() != success || got.present != present {
		s.Fatalf("got %v, want session present %t", got, present)
	}
	return c
}

// TestSessionQueues: messages of QoS 1 and 2 while the client is not connected are queued,
// in order [MQTT-4.6.0-5, MQTT-3.1.2-5], and sent as new, without DUP [MQTT-3.3.1-1], once.
func TestSessionQueues(t *testing.T) {
	const many = 200
	play(t, everyVersion, func(s *scene) {
		publisher, c := s.join(connect{}), s.join(persistent("away", s))
		c.subscribe(2, s.topic("q/#"))
		c.leave()
		for i := range many {
			publisher.publish(publish{topic: s.topic(fmt.Sprint("q/", i%3)), qos: 1 + byte(i/2%2), payload: fmt.Sprint(i)})
		}
		c = s.resume(persistent("away", s))
		c.receiveAll(many, false, func(i int) publish {
			return publish{topic: s.topic(fmt.Sprint("q/", i%3)), qos: 1 + byte(i/2%2), payload: fmt.Sprint(i)}
		})
		count := map[string]int{}
		if n := c.collect(count); n > 0 {
			s.Errorf("got %d messages more: %v", n, count)
		}
		c.leave()
		s.resume(persistent("away", s)).expectPong()
	})
}

// receiveAll expects so many messages in order and completes each of them, as far as others
// in flight allow. With again they may be marked as sent before.
func (c *client) receiveAll(many int, again bool, message func(i int) publish) {
	c.Helper()
	for i, owed := 0, 0; i < many || owed > 0; {
		got := c.next()
		if got.kind() == typePubrel {
			c.send(ack(c.version, typePubcomp, got.id, success))
			owed--
			continue
		}
		want := message(i)
		want.id, want.dup = got.id, again && got.first&8 != 0
		if !same(got, parse(c.version, want.bytes(c.version))) {
			c.Fatalf("%s: message %d:\n got %v\nwant %+v", c.name, i, got, want)
		}
		c.acknowledgeFirst(got)
		owed += int(got.qos() / 2)
		i++
	}
}

// TestSessionSendsAgain: what was sent and not acknowledged is sent again when the client
// reconnects, with DUP and its packet identifier, in the order of the first sending
// [MQTT-4.4.0-1, MQTT-4.6.0-1, MQTT-3.3.1-1]; and not before that.
func TestSessionSendsAgain(t *testing.T) {
	play(t, everyVersion, func(s *scene) {
		publisher, c := s.join(connect{}), s.join(persistent("again", s))
		c.subscribe(2, s.topic("x"))
		var sent []publish
		for i := range 10 {
			p := publish{topic: s.topic("x"), qos: 1 + byte(i%2), payload: fmt.Sprint(i)}
			publisher.publish(p)
			p.id = c.expectPublish(p)
			sent = append(sent, p)
		}
		c.expectPong()
		c.acknowledge(sent[3].qos, sent[3].id) // out of order, and only this one
		c.expectPong()
		for round := range 3 {
			if round == 1 {
				c.drop()
			} else {
				c.leave()
			}
			c = s.resume(persistent("again", s))
			for i, p := range sent {
				if i == 3 {
					continue
				}
				p.dup = true
				if id := c.expectPublish(p); id != p.id {
					s.Errorf("message %d is sent again as %d, was %d", i, id, p.id)
				}
			}
			c.expectPong()
		}
		for i, p := range sent {
			if i != 3 {
				c.acknowledge(p.qos, p.id)
			}
		}
		c.leave()
		s.resume(persistent("again", s)).expectPong()
	})
}

// TestSessionSendsPUBRELAgain: a message whose PUBREC has arrived is not sent again, its
// PUBREL is, with the same identifier [MQTT-4.4.0-1, MQTT-4.3.3-5, MQTT-4.3.3-6].
func TestSessionSendsPUBRELAgain(t *testing.T) {
	play(t, everyVersion, func(s *scene) {
		publisher, c := s.join(connect{}), s.join(persistent("rel", s))
		c.subscribe(2, s.topic("x"))
		var ids []uint16
		for i := range 3 {
			p := publish{topic: s.topic("x"), qos: 2, payload: fmt.Sprint(i)}
			publisher.publish(p)
			ids = append(ids, c.expectPublish(p))
		}
		for _, id := range ids {
			c.send(ack(s.version, typePubrec, id, success))
			c.expect(ack(s.version, typePubrel, id, success))
		}
		for range 2 {
			c.expectPong()
			c.leave()
			c = s.resume(persistent("rel", s))
			for _, id := range ids {
				c.expect(ack(s.version, typePubrel, id, success))
			}
		}
		for _, id := range ids {
			c.send(ack(s.version, typePubcomp, id, success))
		}
		c.leave()
		s.resume(persistent("rel", s)).expectPong()
	})
}

// TestSessionOldBeforeNew: what is sent again comes before what was queued, and identifiers
// do not collide.
func TestSessionOldBeforeNew(t *testing.T) {
	play(t, everyVersion, func(s *scene) {
		publisher, c := s.join(connect{}), s.join(persistent("both", s))
		c.subscribe(1, s.topic("x"))
		used := map[uint16]bool{}
		for i := range 6 {
			if i == 3 {
				c.leave()
			}
			p := publish{topic: s.topic("x"), qos: 1, payload: fmt.Sprint(i)}
			publisher.publish(p)
			if i < 3 {
				c.expectPublish(p)
			}
		}
		c = s.resume(persistent("both", s))
		for i := range 6 {
			id := c.expectPublish(publish{topic: s.topic("x"), qos: 1, payload: fmt.Sprint(i), dup: i < 3})
			if used[id] {
				s.Errorf("identifier %d is used twice", id)
			}
			used[id] = true
		}
	})
}

// TestSessionKeepsReceivedQoS2: a QoS 2 message that the broker has received without its
// PUBREL is known after a reconnect: sent again, it is acknowledged and not delivered again
// [MQTT-4.3.3-10, MQTT-4.1.0-1].
func TestSessionKeepsReceivedQoS2(t *testing.T) {
	play(t, everyVersion, func(s *scene) {
		subscriber, c := s.join(connect{}), s.join(persistent("sender", s))
		subscriber.subscribe(2, s.topic("x"))
		p := publish{topic: s.topic("x"), qos: 2, id: 11, payload: "once"}
		c.send(p.bytes(s.version))
		c.expectAck(typePubrec, 11)
		c.leave()
		c = s.resume(persistent("sender", s))
		p.dup = true
		c.send(p.bytes(s.version))
		c.expectAck(typePubrec, 11)
		c.leave()
		c = s.resume(persistent("sender", s))
		c.send(ack(s.version, typePubrel, 11, success))
		c.expectAck(typePubcomp, 11)
		subscriber.receive(publish{topic: s.topic("x"), qos: 2, payload: "once"})
		subscriber.expectNothing(c)
	})
}

// TestSessionCleanStartForgets everything: queue, what is in flight in both directions,
// subscriptions [MQTT-3.1.2-4], in 3.1.1 [MQTT-3.1.2-6].
func TestSessionCleanStartForgets(t *testing.T) {
	play(t, everyVersion, func(s *scene) {
		publisher, c := s.join(connect{}), s.join(persistent("wiped", s))
		c.subscribe(2, s.topic("x"))
		c.send(publish{topic: s.topic("y"), qos: 2, id: 11, payload: "first"}.bytes(s.version))
		c.expectAck(typePubrec, 11)
		publisher.publish(publish{topic: s.topic("x"), qos: 2})
		c.expectPublish(publish{topic: s.topic("x"), qos: 2})
		c.leave()
		publisher.publish(publish{topic: s.topic("x"), qos: 1})
		as := persistent("wiped", s)
		as.keep = false
		c = s.begin(as)
		c.expectPong()
		watcher := s.join(connect{})
		watcher.subscribe(2, s.topic("y"))
		c.publish(publish{topic: s.topic("y"), qos: 2, id: 11, payload: "second"})
		watcher.receive(publish{topic: s.topic("y"), qos: 2, payload: "second"})
		c.leave()
		if !s.five() {
			s.begin(persistent("wiped", s)).expectPong()
			return
		}
		s.resume(persistent("wiped", s)).expectPong() // a clean start of a persistent session
	})
}

// TestSessionExpiryOfMQTT5: without an interval the session ends with its
// connection, also without clean start [MQTT-3.1.2-23]; DISCONNECT may change
// the interval, but not from none [MQTT-3.14.2-2].
func TestSessionExpiryOfMQTT5(t *testing.T) {
	play(t, onlyFive, func(s *scene) {
		as := connect{clientID: s.id("brief"), keep: true}
		for range 2 {
			c := s.begin(as)
			c.subscribe(1, s.topic("x"))
			c.leave()
		}
		s.begin(as).drop()
		kept := persistent("brief", s)
		s.join(kept).leave()
		s.resume(kept).quit(success, propU32(sessionExpiry, 0))
		s.begin(kept).quit(success, propU32(sessionExpiry, 0xffffffff))
		s.resume(kept).leave()
	})
}

// TestSessionLastsWhileConnected: however short the expiry interval is, it does not start
// before the end of the connection [MQTT-4.1.0-1], in 3.1.1 [MQTT-4.1.0-2].
func TestSessionLastsWhileConnected(t *testing.T) {
	play(t, everyVersion, func(s *scene) { s.untilInTime((*scene).lastWhileConnected) }, configured(func(c *embedded.Config) { c.MaxSessionExpiry = time.Second }))
}

// lastWhileConnected reports whether the second connection took over within a second: in
// between, the session has none.
func (s *scene) lastWhileConnected() (inTime bool) {
	as := connect{clientID: s.id("here"), keep: true, props: s.expiry(1)}
	c, publisher := s.join(as), s.join(connect{})
	c.subscribe(1, s.topic("x"))
	s.join(connect{keepAlive: 2}).expectGone() // after three seconds
	p := publish{topic: s.topic("x"), qos: 1, payload: "still here"}
	publisher.publish(p)
	c.receive(p)
	c.expectPong() // so the broker has the acknowledgement, and does not send the message again
	began := time.Now()
	c, ack := s.greet(as)
	if time.Since(began) >= time.Second {
		return false
	}
	if ack.reason() != success || ack.present != s.hasSessionPresent() {
		s.Fatalf("got %v, want the session present", ack)
	}
	publisher.publish(p)
	c.receive(p)
	return true
}

// TestSessionExpiresWithAll: when the interval is over, the session is deleted with its
// subscriptions and its queue [MQTT-3.1.2-23, MQTT-4.1.0-2]. Its Will, which waits longer,
// is published at that time [MQTT-3.1.3-9] and shows it.
func TestSessionExpiresWithAll(t *testing.T) {
	play(t, onlyFive, func(s *scene) {
		watcher, publisher := s.join(connect{}), s.join(connect{})
		watcher.subscribe(0, s.topic("will"))
		as := connect{clientID: s.id("mortal"), keep: true, props: propU32(sessionExpiry, 1),
			will: &will{topic: s.topic("will"), payload: "it is over", props: propU32(willDelay, 3600)}}
		c := s.begin(as)
		c.subscribe(1, s.topic("x"))
		c.drop()
		publisher.publish(publish{topic: s.topic("x"), qos: 1, payload: "waits"})
		watcher.receive(publish{topic: s.topic("will"), payload: "it is over"})
		c = s.begin(as)
		publisher.publish(publish{topic: s.topic("x"), qos: 1, payload: "too late"})
		c.expectPong()
	})
}

// TestSessionTakenOver: the second connection with a client identifier ends the first
// [MQTT-3.1.4-3], in 3.1.1 [MQTT-3.1.4-2], and has its session: nothing in flight is lost
// or sent in another order.
func TestSessionTakenOver(t *testing.T) {
	play(t, everyVersion, func(s *scene) {
		publisher, c := s.join(connect{}), s.join(persistent("taken", s))
		c.subscribe(1, s.topic("x"))
		for i := range 10 {
			p := publish{topic: s.topic("x"), qos: 1, payload: fmt.Sprint(i)}
			publisher.publish(p)
			c.expectPublish(p)
			old := c
			c = s.resume(persistent("taken", s))
			old.expectEnd(sessionTakenOver)
			for j := range i + 1 {
				c.expectPublish(publish{topic: s.topic("x"), qos: 1, payload: fmt.Sprint(j), dup: true})
			}
		}
	})
}

// TestSessionAcrossVersions: a session belongs to its client identifier, in whatever
// version its client reconnects.
func TestSessionAcrossVersions(t *testing.T) {
	play(t, everyVersion, func(s *scene) {
		publisher, c := s.join(connect{}), s.join(persistent("poly", s))
		c.subscribe(1, s.topic("x"))
		for _, version := range everyVersion {
			c.leave()
			publisher.publish(publish{topic: s.topic("x"), qos: 1, payload: fmt.Sprint(version)})
			as := connect{version: version, clientID: s.id("poly"), keep: true}
			if version == v5 {
				as.props = propU32(sessionExpiry, 3600)
			}
			c = s.resume(as)
			c.receive(publish{topic: s.topic("x"), qos: 1, payload: fmt.Sprint(version)})
		}
	})
}

// TestSessionQoS0IsNotOwed: what is queued for an absent client and what it subscribed at
// QoS 0 does not block the rest.
func TestSessionQoS0IsNotOwed(t *testing.T) {
	play(t, everyVersion, func(s *scene) {
		publisher, c := s.join(connect{}), s.join(persistent("zero", s))
		c.subscribe(0, s.topic("zero"))
		c.subscribe(1, s.topic("one"))
		c.leave()
		publisher.publish(publish{topic: s.topic("zero"), qos: 2})
		publisher.publish(publish{topic: s.topic("one"), qos: 0})
		publisher.publish(publish{topic: s.topic("one"), qos: 2, payload: "owed"})
		c = s.resume(persistent("zero", s))
		c.receive(publish{topic: s.topic("one"), qos: 1, payload: "owed"})
		c.expectPong()
	})
}

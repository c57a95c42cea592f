package conformance

import "testing"

// TestTakeOver shows [MQTT-3.1.4-2], in MQTT 5 [MQTT-3.1.4-3]: a client with the client
// identifier of a connected one takes over; and [MQTT-3.2.0-2]: each receives one CONNACK.
func TestTakeOver(t *testing.T) {
	play(t, everyVersion, func(s *scene) {
		first := s.join(connect{clientID: s.id("a")})
		first.subscribe(1, s.topic("x"))
		second, ack := s.greet(connect{clientID: s.id("a")})
		if ack.present {
			s.Error("a clean session was taken over")
		}
		first.expectEnd(sessionTakenOver)
		publisher := s.join(connect{})
		publisher.publish(publish{topic: s.topic("x"), payload: "for nobody", qos: 1})
		second.expectNothing(publisher)
	})
}

// TestTakeOverKeepsSession shows [MQTT-3.1.2-4], in MQTT 5 [MQTT-3.1.2-5]: a client that
// takes over a session receives all that was in flight, in order and once.
func TestTakeOverKeepsSession(t *testing.T) {
	play(t, everyVersion, func(s *scene) {
		as := connect{clientID: s.id("a"), keep: true, props: s.expiry(60)}
		publisher := s.join(connect{})
		c := s.join(as)
		c.subscribe(1, s.topic("x"))
		const rounds = 20
		for i := range rounds {
			m := publish{topic: s.topic("x"), payload: string('a' + rune(i)), qos: 1}
			publisher.publish(m)
			next, ack := s.greet(as)
			if ack.present != s.hasSessionPresent() {
				s.Fatalf("round %d: %v", i, ack)
			}
			m.dup = s.sentBefore(c, m)
			next.receive(m)
			next.expectPong() // its acknowledgement has arrived before it is taken over in turn
			c = next
		}
		c.expectNothing(publisher)
	})
}

// sentBefore reports whether a message reached the connection that was taken over; then the
// next one receives it as a duplicate [MQTT-3.3.1-1].
func (s *scene) sentBefore(c *client, want publish) (sent bool) {
	s.Helper()
	for {
		p, err := c.read()
		if err != nil {
			return sent
		}
		sent = sent || p.kind() == typePublish && p.payload == want.payload
	}
}

// TestTakeOverAcrossVersions shows that a session does not depend on the version of its
// connections [MQTT-3.1.3-2].
func TestTakeOverAcrossVersions(t *testing.T) {
	play(t, []byte{v311, v5}, func(s *scene) {
		other := v311 + v5 - s.version
		as := connect{clientID: s.id("a"), keep: true, props: s.expiry(60)}
		s.join(as).subscribe(1, s.topic("x"))
		heir, ack := s.greet(connect{version: other, clientID: s.id("a"), keep: true})
		if !ack.present {
			s.Errorf("got %v, want the session present", ack)
		}
		s.join(connect{}).publish(publish{topic: s.topic("x"), payload: "hello", qos: 1})
		heir.receive(publish{topic: s.topic("x"), payload: "hello", qos: 1})
	})
}

// TestTakeOverByCleanStart shows [MQTT-3.1.2-6], in MQTT 5 [MQTT-3.1.2-4]: a clean start
// discards the session of a client that is still connected.
func TestTakeOverByCleanStart(t *testing.T) {
	play(t, everyVersion, func(s *scene) {
		as := connect{clientID: s.id("a"), keep: true, props: s.expiry(60)}
		first := s.join(as)
		first.subscribe(1, s.topic("x"))
		publisher := s.join(connect{})
		publisher.publish(publish{topic: s.topic("x"), payload: "unacknowledged", qos: 1})
		first.expectPublish(publish{topic: s.topic("x"), payload: "unacknowledged", qos: 1})
		second := s.join(connect{clientID: s.id("a")})
		first.expectEnd(sessionTakenOver)
		publisher.publish(publish{topic: s.topic("x"), payload: "for nobody", qos: 1})
		second.expectNothing(publisher)
	})
}

// TestTakeOverBySilentPeer shows that a connection whose peer has vanished does not block
// its successor.
func TestTakeOverBySilentPeer(t *testing.T) {
	play(t, everyVersion, func(s *scene) {
		for range 10 {
			c := s.join(connect{clientID: s.id("a"), keepAlive: 600})
			c.expectPong()
		}
	})
}

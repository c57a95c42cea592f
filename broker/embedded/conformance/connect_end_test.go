package conformance

import (
	"testing"
	"time"

	"signalbox/scripts/suite"
)

// TestDisconnect shows [MQTT-3.14.4-1] [MQTT-3.14.4-2] from the server's side: after
// DISCONNECT it closes the connection, and ignores what follows.
func TestDisconnect(t *testing.T) {
	play(t, everyVersion, func(s *scene) {
		watcher := s.join(connect{})
		watcher.subscribe(1, s.topic("#"))
		c := s.join(connect{})
		c.send(disconnect(s.version, success, nil),
			publish{topic: s.topic("x"), payload: "too late", qos: 1, id: 1}.bytes(s.version))
		if s.on(kindMosquitto) {
			c.expectGone() // 2.0.11 reports the second packet
		} else {
			c.expectClosed()
		}
		watcher.expectNothing(s.join(connect{}))
	})
}

// TestDisconnectForms shows the forms of a DISCONNECT in MQTT 5: empty, with a reason, and
// with properties; [MQTT-3.14.2-1] is what it may contain.
func TestDisconnectForms(t *testing.T) {
	play(t, onlyFive, func(s *scene) {
		for name, body := range map[string][]byte{
			"nothing":           {},
			"a reason":          {0},
			"no properties":     {0, 0},
			"a reason string":   cat([]byte{0}, withLength(v5, propText(reasonString, "bye"))),
			"user properties":   cat([]byte{0}, withLength(v5, cat(user("a", "1"), user("a", "1")))),
			"the will, please":  {4, 0},
			"an error of yours": {0x82, 0},
		} {
			s.each(name, func(s *scene) {
				c := s.join(connect{})
				c.send(frame(typeDisconnect, body))
				c.expectClosed()
			})
		}
	})
}

// TestDisconnectChangesExpiry shows that DISCONNECT may change how long the
// session is kept [MQTT-3.1.2-23], except from not at all.
func TestDisconnectChangesExpiry(t *testing.T) {
	play(t, onlyFive, func(s *scene) {
		for _, c := range []struct {
			name       string
			first, end uint32
			kept       bool
		}{
			{"to zero", 60, 0, false},
			{"to longer", 1, 60, true},
			{"to for ever", 60, 0xffffffff, true},
			{"zero to zero", 0, 0, false},
		} {
			s.each(c.name, func(s *scene) {
				id := s.id("a")
				d := s.join(connect{clientID: id, props: s.expiry(c.first)})
				d.quit(success, propU32(sessionExpiry, c.end))
				_, ack := s.greet(connect{clientID: id, keep: true})
				if ack.present != c.kept {
					s.Errorf("session present is %t, want %t", ack.present, c.kept)
				}
			})
		}
	})
}

// TestDisconnectCannotKeepSession shows that it is an error to ask in DISCONNECT for a
// session expiry interval if that of CONNECT was 0.
func TestDisconnectCannotKeepSession(t *testing.T) {
	play(t, onlyFive, func(s *scene) {
		c := s.join(connect{})
		c.send(disconnect(v5, success, propU32(sessionExpiry, 60)))
		c.expectEnd(protocolError)
	})
}

// TestSessionExpires shows [MQTT-4.1.0-2] and [MQTT-3.1.2-23]: a session is deleted when
// its time is over, and not before.
func TestSessionExpires(t *testing.T) {
	play(t, onlyFive, func(s *scene) {
		gone := publish{topic: s.topic("w"), payload: "brief has gone", qos: 1}
		c := s.join(connect{clientID: s.id("brief"), props: s.expiry(1), will: &will{topic: gone.topic, payload: gone.payload, qos: 1}})
		c.subscribe(1, s.topic("x"))
		long := s.join(connect{clientID: s.id("long"), props: s.expiry(100)})
		forever := s.join(connect{clientID: s.id("forever"), props: s.expiry(0xffffffff)})
		watcher := s.join(connect{})
		watcher.subscribe(1, s.topic("w"))
		c.drop()
		watcher.receive(gone) // from then on its time counts
		long.leave()
		forever.leave()
		s.outlive(watcher, 3)
		for name, kept := range map[string]bool{"brief": false, "long": true, "forever": true} {
			_, ack := s.greet(connect{clientID: s.id(name), keep: true})
			if ack.present != kept {
				s.Errorf("%s: session present is %t, want %t", name, ack.present, kept)
			}
		}
	})
}

// outlive waits until sessions that expire sooner have been deleted, by the Will of one
// that lasts that many seconds.
func (s *scene) outlive(watcher *client, seconds uint32) {
	s.Helper()
	last := will{topic: s.topic("w"), payload: "time is over", qos: 1, props: propU32(willDelay, seconds)}
	s.join(connect{props: s.expiry(seconds + 60), will: &last}).drop()
	watcher.receive(publish{topic: last.topic, payload: last.payload, qos: 1})
}

// TestKeepAliveKept shows that PINGREQ [MQTT-3.12.4-1], and any other packet, keeps a
// connection open beyond its keep-alive. If the machine is so busy that the clients
// themselves were late, it starts over.
func TestKeepAliveKept(t *testing.T) {
	play(t, everyVersion, func(s *scene) {
		for began := time.Now(); !s.keepAlive(); {
			if time.Since(began) > suite.HangLimit {
				s.Fatal("the machine is too busy for packets in time")
			}
		}
	})
}

// keepAlive makes two clients send packets until a silent one is disconnected, and fails if
// one of them is disconnected before. It reports whether they sent them in time: within a
// second of the start of the last ones that were acknowledged.
func (s *scene) keepAlive() (inTime bool) {
	last := time.Now()
	pinging, publishing := s.join(connect{keepAlive: 1}), s.join(connect{keepAlive: 1})
	silent := s.join(connect{keepAlive: 1})
	cut := make(chan error, 1)
	go func() {
		_, err := readPacket(silent.r)
		cut <- err
	}()
	beat := time.NewTicker(200 * time.Millisecond)
	defer beat.Stop()
	for end := false; !end; {
		select {
		case <-cut:
			end = true
		case <-beat.C:
		}
		id, sent := publishing.nextID(), time.Now()
		pinging.sendAnyway(pingreq())
		publishing.sendAnyway(publish{topic: s.topic("x"), qos: 1, id: id}.bytes(s.version))
		pong, pinged := pinging.read()
		puback, published := publishing.read()
		if pinged == nil && published == nil && pong.kind() == typePingresp && puback.kind() == typePuback {
			last = sent
			continue
		}
		if time.Since(last) > time.Second {
			return false
		}
		s.Fatalf("got %v, %v and %v, %v", pong, pinged, puback, published)
	}
	return true
}

// TestKeepAliveTimeout shows [MQTT-3.1.2-24], in MQTT 5 [MQTT-3.1.2-22]: silence ends the
// connection, in MQTT 5 with the reason. The engine's TestKeepAliveIsExact shows after what
// time.
func TestKeepAliveTimeout(t *testing.T) {
	play(t, everyVersion, func(s *scene) {
		c := s.join(connect{keepAlive: 1})
		c.expectEnd(keepAliveTimeout)
	})
}

// TestKeepAliveOff shows that a keep-alive of 0 means no limit, and that a long
// one is not taken for a short one.
func TestKeepAliveOff(t *testing.T) {
	play(t, everyVersion, func(s *scene) {
		var quiet []*client
		for _, seconds := range []uint16{0, 60, 43690, 43691, 65535} {
			quiet = append(quiet, s.join(connect{keepAlive: seconds}))
		}
		s.join(connect{keepAlive: 1}).expectGone()
		for _, c := range quiet {
			c.expectPong()
		}
	})
}

// TestPing shows [MQTT-3.12.4-1].
func TestPing(t *testing.T) {
	play(t, everyVersion, func(s *scene) {
		c := s.join(connect{})
		for range 3 {
			c.expectPong()
		}
		c.send(pingreq(), pingreq(), pingreq())
		for range 3 {
			c.expect(pingresp())
		}
	})
}

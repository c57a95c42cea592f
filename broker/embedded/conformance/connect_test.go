package conformance

import (
	"fmt"
	"strings"
	"testing"
)

// TestConnectAccepted shows [MQTT-3.1.4-4], in MQTT 5 [MQTT-3.1.4-5]: a valid CONNECT is
// answered with code 0; and [MQTT-3.2.0-1]: CONNACK is the first packet, even if messages
// are queued.
func TestConnectAccepted(t *testing.T) {
	play(t, everyVersion, func(s *scene) {
		id := s.id("a")
		as := connect{clientID: id, keep: true, props: s.expiry(60)}
		c := s.join(as)
		c.subscribe(1, s.topic("x"))
		c.leave()
		s.join(connect{}).publish(publish{topic: s.topic("x"), qos: 1, payload: "waits"})
		c, ack := s.greet(as)
		if ack.present != s.hasSessionPresent() || ack.reason() != success {
			s.Errorf("got %v, want the session present", ack)
		}
		c.receive(publish{topic: s.topic("x"), qos: 1, payload: "waits"})
		c.expectPong()
	})
}

// expiry returns the property that keeps a session, if the version has it.
func (s *scene) expiry(seconds uint32) []byte {
	if !s.five() {
		return nil
	}
	return propU32(sessionExpiry, seconds)
}

// hasSessionPresent reports whether CONNACK has the session present flag: in MQTT 3.1 the
// bit was reserved.
func (s *scene) hasSessionPresent() bool { return s.version != v31 }

// TestConnectSessionPresent shows the session present flag of CONNACK, and that the session
// is resumed or discarded: [MQTT-3.1.2-4] [MQTT-3.1.2-6] [MQTT-3.2.2-1] [MQTT-3.2.2-2]
// [MQTT-3.2.2-3], in MQTT 5 [MQTT-3.1.2-4] [MQTT-3.1.2-5] [MQTT-3.1.2-6] [MQTT-3.1.4-4]
// [MQTT-3.2.2-2] [MQTT-3.2.2-3].
func TestConnectSessionPresent(t *testing.T) {
	play(t, everyVersion, func(s *scene) {
		id := s.id("a")
		publisher := s.join(connect{})
		for i, step := range []struct{ keep, present, subscribed bool }{
			{keep: true}, // no session exists yet
			{keep: true, present: true, subscribed: true},
			{keep: true, present: true, subscribed: true},
			{keep: false}, // discards it
			{keep: true, present: s.five()},
		} {
			c, ack := s.greet(connect{clientID: id, keep: step.keep, props: s.expiry(60)})
			if ack.present != (step.present && s.hasSessionPresent()) {
				s.Fatalf("connection %d: session present is %t, want %t", i, ack.present, step.present)
			}
			m := publish{topic: s.topic("x"), payload: fmt.Sprint(i), qos: 1}
			publisher.publish(m)
			if step.subscribed {
				c.receive(m)
			}
			c.expectNothing(publisher)
			if i == 0 {
				c.subscribe(1, s.topic("x"))
			}
			c.leave()
		}
	})
}

// TestConnectCleanSessionEnds shows [MQTT-3.1.2-6]: a clean session ends with its
// connection; and [MQTT-3.1.2-7]: retained messages stay.
func TestConnectCleanSessionEnds(t *testing.T) {
	play(t, everyVersion, func(s *scene) {
		id := s.id("a")
		c := s.join(connect{clientID: id})
		c.subscribe(1, s.topic("x"))
		kept := publish{topic: s.topic("kept"), payload: "stays", qos: 1, retain: true}
		c.publish(kept)
		c.leave()
		s.join(connect{}).publish(publish{topic: s.topic("x"), qos: 1, payload: "for nobody"})
		c, ack := s.greet(connect{clientID: id, keep: true})
		if ack.present {
			s.Error("a clean session outlived its connection")
		}
		c.expectPong()
		c.subscribe(1, kept.topic)
		c.receive(kept)
	})
}

// TestConnectSecond shows [MQTT-3.1.0-2]: a second CONNECT is an error.
func TestConnectSecond(t *testing.T) {
	play(t, everyVersion, func(s *scene) {
		c := s.join(connect{})
		c.send(connect{version: s.version, clientID: c.name}.bytes())
		c.expectEnd(protocolError)
	})
}

// TestConnectFirst shows [MQTT-3.1.0-1]: nothing is answered before CONNECT, and
// [MQTT-3.14.0-1]: not even with DISCONNECT.
func TestConnectFirst(t *testing.T) {
	play(t, everyVersion, func(s *scene) {
		for name, packet := range map[string][]byte{
			"PUBLISH":     publish{topic: "x", qos: 1, id: 1}.bytes(s.version),
			"SUBSCRIBE":   subscribe(s.version, 1, nil, filter{"x", 0}),
			"UNSUBSCRIBE": unsubscribe(s.version, 1, nil, "x"),
			"PINGREQ":     pingreq(),
			"DISCONNECT":  disconnect(s.version, success, nil),
			"AUTH":        frame(typeAuth),
			"CONNACK":     frame(typeConnack, []byte{0, 0}),
			"PUBREL":      ack(s.version, typePubrel, 1, success),
			"type 0":      {0, 0},
		} {
			s.each(name, func(s *scene) {
				c := s.dial()
				c.send(packet)
				c.expectClosed()
			})
		}
	})
}

// TestConnectProtocolName shows [MQTT-3.1.2-1].
func TestConnectProtocolName(t *testing.T) {
	play(t, everyVersion, func(s *scene) {
		for _, name := range []string{"", "MQTT ", "mqtt", "MQTTT", "MQIsdq", "HTTP", strings.Repeat("M", 300)} {
			s.each(name, func(s *scene) {
				c := s.dial()
				c.sendAnyway(frame(typeConnect, text(name), []byte{s.version, 2, 0, 0},
					withLength(s.version, nil), text(s.id("a"))))
				c.expectNoConnack()
			})
		}
	})
}

// expectNoConnack expects the end of a connection without CONNECT: at most a refusal is
// sent, in the form of any version.
func (c *client) expectNoConnack() {
	c.Helper()
	p, err := c.read()
	if err == nil {
		if p.kind() != typeConnack || p.reason() == success {
			c.Fatalf("got %v (% x), want a refusal or the end", p, p.raw)
		}
		c.expectClosed()
		return
	}
	c.expectClosed()
}

// TestConnectVersion shows [MQTT-3.1.2-2]: an unsupported level is refused with return code
// 1, in the form of MQTT 3.1.1, which clients of later versions will know as well.
func TestConnectVersion(t *testing.T) {
	play(t, []byte{v31, v311}, func(s *scene) {
		for _, level := range []byte{1, 2, 6, 7, 0x42, 0x7f} {
			s.each(fmt.Sprintf("level %d", level), func(s *scene) {
				c := s.dial()
				c.send(connect{version: s.version, level: level, clientID: s.id("a")}.bytes())
				c.expect(frame(typeConnack, []byte{0, 1}))
				c.expectClosed()
			})
		}
	})
}

// TestConnectBridge shows that a bridge is accepted that marks itself by the highest bit of
// the protocol level, as Mosquitto's do.
func TestConnectBridge(t *testing.T) {
	play(t, beforeFive, func(s *scene) {
		c := s.join(connect{level: s.version | 0x80})
		other := s.join(connect{})
		c.subscribe(1, s.topic("#"))
		other.publish(publish{topic: s.topic("x"), payload: "to the bridge", qos: 1})
		c.receive(publish{topic: s.topic("x"), payload: "to the bridge", qos: 1})
	})
}

// TestConnectClientID shows [MQTT-3.1.3-5]: the client identifiers that every server must
// accept; and that ours accepts longer ones and any character.
func TestConnectClientID(t *testing.T) {
	play(t, everyVersion, func(s *scene) {
		for name, id := range map[string]string{
			"one letter":     string('A'+byte(s.version)) + s.transportLetter(),
			"23 letters":     (s.mark + "abcdefghijklmnopqrstuvwxyz")[:23],
			"digits":         (s.mark[1:] + "01234567890123456789012")[:23],
			"long":           s.mark + strings.Repeat("x", 1000),
			"UTF-8":          s.mark + "grüße-世界-\U0001F600",
			"of punctuation": s.mark + "/+#$ %&",
		} {
			s.each(name, func(s *scene) {
				c := s.join(connect{clientID: id})
				c.expectPong()
				c.leave()
			})
		}
	})
}

func (s *scene) transportLetter() string { return transport(s.ws)[:1] }

// TestConnectClientIDIdentifies shows [MQTT-3.1.3-2]: a session belongs to its
// client identifier, byte by byte.
func TestConnectClientIDIdentifies(t *testing.T) {
	play(t, everyVersion, func(s *scene) {
		c := s.join(connect{clientID: s.id("a"), keep: true, props: s.expiry(60)})
		c.subscribe(1, s.topic("x"))
		c.leave()
		for _, other := range []string{s.id("A"), s.id("a "), s.id("aa"), s.id("")} {
			d, ack := s.greet(connect{clientID: other, keep: true, props: s.expiry(60)})
			if ack.present {
				s.Errorf("%q has got the session of %q", other, c.name)
			}
			d.leave()
		}
	})
}

// TestConnectAssignsClientID shows [MQTT-3.1.3-6]: without a client identifier, a unique
// one is assigned; in MQTT 5 [MQTT-3.1.3-7] and [MQTT-3.2.2-16], CONNACK contains it.
func TestConnectAssignsClientID(t *testing.T) {
	play(t, []byte{v311, v5}, func(s *scene) {
		seen, all := map[string]bool{}, []*client{}
		for range 5 {
			c := s.dial()
			c.send(connect{version: s.version, props: s.expiry(60)}.bytes())
			ack := c.next()
			id := ack.textOf(assignedClientID)
			if ack.kind() != typeConnack || ack.reason() != success || s.five() != (id != "") || seen[id] && s.five() {
				s.Fatalf("got %v, the identifiers before were %v", ack, seen)
			}
			seen[id] = true
			c.expectPong()
			if s.five() {
				c.leave()
				c, ack = s.greet(connect{clientID: id, keep: true, props: s.expiry(60)})
				if !ack.present {
					s.Errorf("the session of %q is not found by that name", id)
				}
			}
			all = append(all, c)
		}
		for _, c := range all { // if two had the same identifier, one would have been taken over
			c.expectPong()
		}
	})
}

// TestConnectWithoutClientID shows [MQTT-3.1.3-8] and [MQTT-3.1.3-9]: a session
// to be kept needs a client identifier before MQTT 5, and MQTT 3.1 always.
func TestConnectWithoutClientID(t *testing.T) {
	play(t, beforeFive, func(s *scene) {
		for _, keep := range []bool{false, true} {
			if s.version == v311 && !keep {
				continue
			}
			c := s.dial()
			c.send(connect{version: s.version, keep: keep}.bytes())
			c.expectRefusal(2)
		}
	})
}

// TestConnectAssignsClientIDToKeptSession shows [MQTT-3.1.3-6] where MQTT 5 goes
// further than 3.1.1: a session may be kept under an assigned identifier.
func TestConnectAssignsClientIDToKeptSession(t *testing.T) {
	play(t, onlyFive, func(s *scene) {
		c := s.dial()
		c.send(connect{version: v5, keep: true, props: propU32(sessionExpiry, 60)}.bytes())
		ack := c.next()
		if ack.reason() != success || ack.present || ack.textOf(assignedClientID) == "" {
			s.Errorf("got %v, want an identifier assigned", ack)
		}
	})
}

// TestConnectPipelined shows that packets may follow a CONNECT at once, without
// waiting for CONNACK, and are answered in order.
func TestConnectPipelined(t *testing.T) {
	play(t, everyVersion, func(s *scene) {
		c := s.dial()
		m := publish{topic: s.topic("x"), payload: "at once", qos: 1, id: 2}
		c.send(connect{version: s.version, clientID: s.id("a")}.bytes(),
			subscribe(s.version, 1, nil, filter{m.topic, 0}), m.bytes(s.version), pingreq())
		if got := c.next(); got.kind() != typeConnack || got.reason() != success {
			s.Fatalf("got %v, want CONNACK", got)
		}
		c.expect(suback(s.version, 1, 0))
		c.expectInAnyOrder(
			publish{topic: m.topic, payload: m.payload}.bytes(s.version),
			ack(s.version, typePuback, 2, success), pingresp())
	})
}

// TestConnectRefusedIsDeaf shows [MQTT-3.1.4-5], in MQTT 5 [MQTT-3.1.4-6]: what follows a
// refused CONNECT is ignored; and [MQTT-3.2.2-4] [MQTT-3.2.2-5], in MQTT 5 [MQTT-3.2.2-6]
// [MQTT-3.2.2-7]: a refusal reports no session, and ends the connection.
func TestConnectRefusedIsDeaf(t *testing.T) {
	play(t, everyVersion, func(s *scene) {
		watcher := s.join(connect{})
		watcher.subscribe(1, s.topic("#"))
		c := s.dial()
		c.sendAnyway(connect{version: s.version, level: 0x42, clientID: s.id("a")}.bytes(),
			publish{topic: s.topic("x"), payload: "of a stranger", qos: 1, id: 1, retain: true}.bytes(s.version))
		c.expectGone()
		watcher.expectNothing(s.join(connect{}))
	})
}

// TestConnectPasswordWithoutUsername shows [MQTT-3.1.2-22] of MQTT 3.1.1, which
// MQTT 5 has dropped.
func TestConnectPasswordWithoutUsername(t *testing.T) {
	play(t, everyVersion, func(s *scene) {
		c := s.dial()
		c.send(connect{version: s.version, clientID: s.id("a"), password: "secret"}.bytes())
		if !s.five() {
			c.expectClosed()
			return
		}
		if p := c.next(); p.kind() != typeConnack || p.malformed != nil {
			s.Errorf("got %v, want an answer about the credentials", p)
		}
	})
}

// TestConnectReservedFlags shows [MQTT-3.1.2-3], and [MQTT-3.1.4-1]: an invalid CONNECT
// closes the connection, in MQTT 5 with or without a CONNACK before.
func TestConnectReservedFlags(t *testing.T) {
	play(t, []byte{v311, v5}, func(s *scene) {
		will := cat(withLength(s.version, nil), text(s.topic("w")), text("gone"))
		for _, c := range []struct {
			name   string
			clause string
			flags  byte
			rest   []byte
		}{
			{"the reserved bit", "[MQTT-3.1.2-3]", 0x03, nil},
			{"Will QoS without Will", "[MQTT-3.1.2-13], in MQTT 5 [MQTT-3.1.2-11]", 0x0a, nil},
			{"Will QoS 2 without Will", "[MQTT-3.1.2-13], in MQTT 5 [MQTT-3.1.2-11]", 0x12, nil},
			{"Will retain without Will", "[MQTT-3.1.2-15], in MQTT 5 [MQTT-3.1.2-13]", 0x22, nil},
			{"Will QoS 3", "[MQTT-3.1.2-14], in MQTT 5 [MQTT-3.1.2-12]", 0x1e, will},
			{"a Will that is missing", "[MQTT-3.1.2-9]", 0x06, nil},
			{"half a Will", "[MQTT-3.1.2-9]", 0x06, cat(withLength(s.version, nil), text(s.topic("w")))},
			{"a Will that is not announced", "[MQTT-3.1.2-11] of 3.1.1", 0x02, will},
			{"a username that is missing", "[MQTT-3.1.2-19], in MQTT 5 [MQTT-3.1.2-17]", 0x82, nil},
			{"a username that is not announced", "[MQTT-3.1.2-18], in MQTT 5 [MQTT-3.1.2-16]", 0x02, text("user")},
			{"a password that is missing", "[MQTT-3.1.2-21], in MQTT 5 [MQTT-3.1.2-19]", 0xc2, text("user")},
			{"a password that is not announced", "[MQTT-3.1.2-20], in MQTT 5 [MQTT-3.1.2-18]", 0x82, cat(text("user"), text("secret"))},
		} {
			s.each(c.name, func(s *scene) {
				d := s.dial()
				d.send(frame(typeConnect, text(protocolName(s.version)), []byte{s.version, c.flags, 0, 0},
					withLength(s.version, nil), text(s.id("a")), c.rest))
				d.expectRefusal(hangUp, malformedPacket, protocolError)
			})
		}
	})
}

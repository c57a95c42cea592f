package conformance

import (
	"fmt"
	"strings"
	"testing"
)

// TestStringsPassThrough shows [MQTT-1.5.3-3], in MQTT 5 [MQTT-1.5.4-3]: a byte order mark
// is a character like any other; [MQTT-4.7.3-4]: names are not normalised; and that all of
// Unicode passes.
func TestStringsPassThrough(t *testing.T) {
	play(t, everyVersion, func(s *scene) {
		names := []string{"\ufeffbom", "bom\ufeff", "ä", "a\u0308", "Ä", "\U0010fffd", "a//b", "/", "a/", " ", "a b", "ﬁ", "\u200b"}
		for _, name := range names {
			c := s.join(connect{})
			c.subscribe(1, s.topic("#"))
			only := s.join(connect{})
			only.subscribe(1, s.topic(name))
			for _, other := range names {
				c.send(publish{topic: s.topic(other), payload: other, qos: 1, id: 100}.bytes(s.version))
				c.expectInAnyOrderAcked(publish{topic: s.topic(other), payload: other, qos: 1}, 100)
				if other == name {
					only.receive(publish{topic: s.topic(other), payload: other, qos: 1})
				}
			}
			only.expectPong()
			c.leave()
			only.leave()
		}
	})
}

// TestDisallowedCharacters shows that control characters and non-characters are refused, as
// the standard allows and Mosquitto does, so that no subscriber that rejects them is
// disconnected for another client's message.
func TestDisallowedCharacters(t *testing.T) {
	play(t, []byte{v311, v5}, func(s *scene) {
		for _, x := range []string{"\x01", "\x1f", "\x7f", "\u0080", "\u009f", "\ufdd0", "\ufffe", "\uffff", "\U0001ffff", "\U0010ffff"} {
			s.each(fmt.Sprintf("%+q", x), func(s *scene) {
				c := s.join(connect{})
				c.send(publish{topic: s.topic(x), payload: x, qos: 1, id: 1}.bytes(s.version))
				c.expectEnd(malformedPacket)
				d := s.dial()
				d.send(connect{version: s.version, clientID: s.id(x)}.bytes())
				d.expectRefusal(hangUp, malformedPacket)
			})
		}
	})
}

// expectInAnyOrderAcked expects a message that the client sent to itself, and the
// acknowledgement of having sent it.
func (c *client) expectInAnyOrderAcked(m publish, id uint16) {
	c.Helper()
	for range 2 {
		p := c.next()
		switch {
		case p.kind() == typePuback && p.id == id && p.reason() == success:
		case p.kind() == typePublish && p.topic == m.topic && p.payload == m.payload && p.qos() == m.qos:
			c.send(ack(c.version, typePuback, p.id, success))
		default:
			c.Fatalf("%s: got %v, want %q and its acknowledgement", c.name, p, m.topic)
		}
	}
}

// TestByteByByte shows that packets may be split in any way [MQTT-4.2-1], over a WebSocket
// into any frames [MQTT-6.0.0-2].
func TestByteByByte(t *testing.T) {
	play(t, everyVersion, func(s *scene) {
		c := s.dial()
		m := publish{topic: s.topic("x"), payload: "in pieces", qos: 1, id: 7}
		for _, b := range cat(connect{version: s.version, clientID: s.id("a")}.bytes(),
			subscribe(s.version, 1, nil, filter{s.topic("x"), 0}), m.bytes(s.version)) {
			c.send([]byte{b})
		}
		if p := c.next(); p.kind() != typeConnack {
			s.Fatalf("got %v, want CONNACK", p)
		}
		c.expect(suback(s.version, 1, 0))
		c.expectInAnyOrder(ack(s.version, typePuback, 7, success), publish{topic: m.topic, payload: m.payload}.bytes(s.version))
	})
}

// TestManyAtOnce shows the reverse: many packets in one piece.
func TestManyAtOnce(t *testing.T) {
	play(t, everyVersion, func(s *scene) {
		c, watcher := s.join(connect{}), s.join(connect{})
		watcher.subscribe(0, s.topic("#"))
		var all []byte
		const many = 500
		for i := range many {
			all = cat(all, publish{topic: s.topic("x"), payload: fmt.Sprint(i)}.bytes(s.version))
		}
		c.send(all, pingreq())
		c.expect(pingresp())
		for i := range many {
			watcher.receive(publish{topic: s.topic("x"), payload: fmt.Sprint(i)})
		}
	})
}

// TestLengthsOfPackets shows that packets of any length are read and written completely,
// around every boundary of the length field.
func TestLengthsOfPackets(t *testing.T) {
	play(t, everyVersion, func(s *scene) {
		c := s.join(connect{})
		c.subscribe(0, s.topic("x"))
		overhead := len(publish{topic: s.topic("x")}.bytes(s.version)) - 2
		for _, length := range []int{127, 128, 16383, 16384, 65535, 65536, 1 << 20} {
			m := publish{topic: s.topic("x"), payload: strings.Repeat("x", length-overhead)}
			c.send(m.bytes(s.version))
			c.receive(m)
		}
	})
}

// TestAnyPayload shows that a payload is arbitrary bytes and may be empty.
func TestAnyPayload(t *testing.T) {
	play(t, everyVersion, func(s *scene) {
		c := s.join(connect{})
		c.subscribe(2, s.topic("x"))
		every := make([]byte, 256)
		for i := range every {
			every[i] = byte(i)
		}
		publisher := s.join(connect{})
		for qos := range byte(3) {
			for _, payload := range []string{"", "\x00", string(every), "\xff\xfe\xed\xa0\x80"} {
				m := publish{topic: s.topic("x"), payload: payload, qos: qos}
				publisher.publish(m)
				c.receive(m)
			}
		}
	})
}

// TestLongestTopic shows that a topic may be as long as its length field allows
// [MQTT-4.7.3-3], if it has not too many levels.
func TestLongestTopic(t *testing.T) {
	play(t, everyVersion, func(s *scene) {
		topic := s.topic(strings.Repeat("x", 65535-len(s.topic(""))))
		c := s.join(connect{})
		c.subscribe(1, topic)
		s.join(connect{}).publish(publish{topic: topic, payload: "far", qos: 1})
		c.receive(publish{topic: topic, payload: "far", qos: 1})
	})
}

// TestPacketTooLargeFromServer shows [MQTT-3.1.2-24] [MQTT-3.1.2-25]: a message that is
// larger than the client accepts is dropped, and the next one is delivered.
func TestPacketTooLargeFromServer(t *testing.T) {
	play(t, onlyFive, func(s *scene) {
		const limit = 100
		props := propU32(maximumPacketSize, limit)
		if !s.on(kindMosquitto) { // where a dropped message occupies its place in the window for good
			props = cat(props, propU16(receiveMaximum, 1))
		}
		c := s.join(connect{props: props})
		c.subscribe(2, s.topic("x"))
		publisher := s.join(connect{})
		for qos := range byte(3) {
			empty := len(publish{topic: s.topic("x"), qos: qos}.bytes(v5))
			fits := publish{topic: s.topic("x"), qos: qos, payload: strings.Repeat("y", limit-empty)}
			large := fits
			large.payload += "y"
			if s.on(kindMosquitto) {
				large.payload += "yy" // it does not count all of the header
			}
			for range 2 {
				publisher.publish(large)
				publisher.publish(fits)
				c.receive(fits)
			}
		}
		c.expectNothing(publisher)
	})
}

// TestPacketTooLargeFromClient shows the effect of violating [MQTT-3.2.2-15]: the limit is
// in CONNACK, and a larger packet ends the connection with reason 0x95.
func TestPacketTooLargeFromClient(t *testing.T) {
	play(t, []byte{v311, v5}, func(s *scene) {
		const limit = 2000
		c, ack := s.greet(connect{})
		if s.five() && ack.number(maximumPacketSize, 0) != limit {
			s.Errorf("the limit is reported as %v", ack)
		}
		m := publish{topic: s.topic("x"), qos: 1, id: 9, payload: strings.Repeat("x", limit/2)}
		m.payload = strings.Repeat("x", limit/2+limit-len(m.bytes(s.version)))
		c.publish(m)
		m.payload += "x"
		if s.on(kindMosquitto) {
			m.payload += "xx" // it does not count all of the header
		}
		c.send(m.bytes(s.version))
		c.expectEnd(packetTooLarge)
	}, limited(2000))
}

// TestProblemInformation shows [MQTT-3.1.2-29]: a client that does not want reason strings
// and user properties receives none outside of PUBLISH, CONNACK and DISCONNECT; nor does
// one whose maximum packet size they would exceed ([MQTT-3.4.2-2] and -3, and so on to
// [MQTT-3.11.2-2]). In fact the broker never sends any there; if that changes, this test
// must show when they are omitted.
func TestProblemInformation(t *testing.T) {
	rights(t, onlyFive, func(s *scene) {
		for name, props := range map[string][]byte{
			"wanted":     nil,
			"not wanted": propByte(requestProblemInfo, 0),
			"no room":    propU32(maximumPacketSize, 20),
		} {
			s.each(name, func(s *scene) {
				who := as(alice)
				who.props = props
				c := s.join(who)
				c.subscribe(0, s.topic("kept/x"))
				for _, step := range []struct {
					request      []byte
					kind, reason byte
				}{
					{publish{topic: s.topic("closed/x"), qos: 1, id: 1}.bytes(v5), typePuback, notAuthorized},
					{publish{topic: s.topic("closed/x"), qos: 2, id: 2}.bytes(v5), typePubrec, notAuthorized},
					{ack(v5, typePubrec, 77, success), typePubrel, idNotFound},
					{ack(v5, typePubrel, 77, success), typePubcomp, idNotFound},
					{subscribe(v5, 3, nil, filter{s.topic("unseen/x"), 0}), typeSuback, notAuthorized},
					{unsubscribe(v5, 4, nil, s.topic("kept/x")), typeUnsuback, notAuthorized},
				} {
					c.send(step.request)
					p := c.next()
					if p.kind() != step.kind || p.reason() != step.reason || p.malformed != nil ||
						len(p.prop(reasonString))+len(p.prop(userProperty)) > 0 || len(p.raw) > 20 {
						s.Errorf("got %v (% x), want %s with reason %#x and no properties", p, p.raw, typeNames[step.kind>>4], step.reason)
					}
				}
			})
		}
	})
}

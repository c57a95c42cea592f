package conformance

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"signalbox/broker/embedded"
)

// TestConnackForm shows the form of CONNACK in MQTT 5: [MQTT-3.2.2-1] no flag but session
// present, [MQTT-3.2.2-8] a known reason, [MQTT-2.2.2-1] a property length in any case, and
// valid properties, each once.
func TestConnackForm(t *testing.T) {
	play(t, onlyFive, func(s *scene) {
		_, ack := s.greet(connect{keepAlive: 60})
		if ack.raw[2]&^1 != 0 {
			s.Errorf("flags %02x", ack.raw[2])
		}
		seen := map[byte]bool{}
		for _, p := range ack.props {
			if seen[p.id] && p.id != userProperty {
				s.Errorf("property %02x stands there twice: %v", p.id, ack)
			}
			seen[p.id] = true
		}
		for _, id := range []byte{maximumQoS, retainAvailable, wildcardAvailable, subscriptionIDsAllowed, sharedAvailable} {
			if ack.number(id, 1) != 1 {
				s.Errorf("property %02x says that something is missing: %v", id, ack)
			}
		}
		if seen[maximumQoS] || seen[responseInformation] || seen[authMethod] || seen[authData] ||
			seen[assignedClientID] || seen[serverReference] || seen[serverKeepAlive] {
			s.Errorf("properties that nothing asks for: %v", ack)
		}
		if ack.number(receiveMaximum, 1) == 0 || ack.number(maximumPacketSize, 1) == 0 {
			s.Errorf("a limit of zero: %v", ack)
		}
	})
}

// TestConnackBeforeFive shows that CONNACK has two bytes before MQTT 5.
func TestConnackBeforeFive(t *testing.T) {
	play(t, beforeFive, func(s *scene) {
		c := s.dial()
		c.send(connect{version: s.version, clientID: s.id("a")}.bytes())
		c.expect([]byte{typeConnack, 2, 0, 0})
	})
}

// TestConnackResponseInformation shows [MQTT-3.1.2-28]: unless it is asked for,
// there is no Response Information.
func TestConnackResponseInformation(t *testing.T) {
	play(t, onlyFive, func(s *scene) {
		for _, props := range [][]byte{nil, propByte(requestResponseInfo, 0)} {
			if _, ack := s.greet(connect{props: props}); len(ack.prop(responseInformation)) != 0 {
				s.Errorf("got %v", ack)
			}
		}
		s.join(connect{props: propByte(requestResponseInfo, 1)}).expectPong()
	})
}

// TestConnackSessionExpiry shows that CONNACK contains a session expiry only if it differs
// from the requested one.
func TestConnackSessionExpiry(t *testing.T) {
	play(t, onlyFive, func(s *scene) {
		for _, seconds := range []uint32{0, 1, 60, 86400} {
			if _, ack := s.greet(connect{props: s.expiry(seconds)}); ack.number(sessionExpiry, int(seconds)) != int(seconds) {
				s.Errorf("asked for %d seconds, got %v", seconds, ack)
			}
		}
	})
}

// TestConnackKeepAlive shows [MQTT-3.2.2-22]: without Server Keep Alive in CONNACK the
// client's own applies.
func TestConnackKeepAlive(t *testing.T) {
	play(t, onlyFive, func(s *scene) {
		c, ack := s.greet(connect{keepAlive: 1})
		if len(ack.prop(serverKeepAlive)) != 0 {
			s.Errorf("a keep-alive of one second was changed: %v", ack)
		}
		c.expectEnd(keepAliveTimeout)
	})
}

// TestServerKeepAlive shows [MQTT-3.1.2-21] [MQTT-3.2.2-21] from the server's side: if it
// allows less than was requested, it sends that value and uses it; before MQTT 5 it cannot
// send it, and uses what was requested.
func TestServerKeepAlive(t *testing.T) {
	play(t, []byte{v311, v5}, func(s *scene) {
		const limit = 10
		for _, asked := range []uint16{0, 5, limit, limit + 1, 65535} {
			c, ack := s.greet(connect{keepAlive: asked})
			want := int(asked)
			if s.five() && (asked == 0 || asked > limit) {
				want = limit
			}
			if got := ack.number(serverKeepAlive, int(asked)); got != want && ack.reason() == success {
				s.Errorf("asked for %d, got %v, want %d", asked, ack, want)
			}
			c.conn.Close()
		}
	}, configured(func(c *embedded.Config) { c.MaxKeepAlive = 10 * time.Second }, "max_keepalive 10"))
}

// TestServerKeepAliveCounts shows that the server uses that value.
func TestServerKeepAliveCounts(t *testing.T) {
	play(t, onlyFive, func(s *scene) {
		c, ack := s.greet(connect{keepAlive: 600})
		if ack.number(serverKeepAlive, 0) != 1 {
			s.Errorf("got %v, want a keep-alive of 1", ack)
		}
		c.expectEnd(keepAliveTimeout)
	}, configured(func(c *embedded.Config) { c.MaxKeepAlive = time.Second }),
		notOn(kindMosquitto, "it allows no limit below 10 seconds"))
}

// TestConnectProperties shows that every property of CONNECT is accepted, in any order and
// with any of its values.
func TestConnectProperties(t *testing.T) {
	play(t, onlyFive, func(s *scene) {
		for name, props := range map[string][]byte{
			"all": cat(user("a", "b"), propU32(sessionExpiry, 1), propU16(receiveMaximum, 65535), user("a", "b"),
				propU32(maximumPacketSize, 100000), propU16(topicAliasMaximum, 10), propByte(requestResponseInfo, 1),
				propByte(requestProblemInfo, 0), user("", "")),
			"the least":          cat(propU16(receiveMaximum, 1), propU32(maximumPacketSize, 100), propU16(topicAliasMaximum, 0)),
			"the most":           cat(propU16(topicAliasMaximum, 65535), propU32(maximumPacketSize, 0xffffffff), propU32(sessionExpiry, 0xffffffff)),
			"a long name":        user(strings.Repeat("n", 60000), strings.Repeat("v", 60000)),
			"nothing at all":     {},
			"no problem, please": propByte(requestProblemInfo, 1),
		} {
			s.each(name, func(s *scene) {
				c := s.join(connect{props: props})
				c.expectPong()
				c.leave()
			})
		}
	})
}

// TestEnhancedAuthenticationRefused shows [MQTT-4.12.0-1]: a method that the server does
// not support is refused with that reason.
func TestEnhancedAuthenticationRefused(t *testing.T) {
	play(t, onlyFive, func(s *scene) {
		for name, props := range map[string][]byte{
			"a method":          propText(authMethod, "SCRAM-SHA-1"),
			"a method and data": cat(propText(authMethod, "SCRAM-SHA-1"), propText(authData, "n,,n=user,r=x")),
			"an unnamed method": propText(authMethod, ""),
		} {
			s.each(name, func(s *scene) {
				c := s.dial()
				c.send(connect{version: v5, clientID: s.id("a"), props: props}.bytes())
				c.expectRefusal(0, badAuthMethod)
			})
		}
	})
}

// TestAuthenticationDataAlone shows that data without a method is an error.
func TestAuthenticationDataAlone(t *testing.T) {
	play(t, onlyFive, func(s *scene) {
		c := s.dial()
		c.send(connect{version: v5, clientID: s.id("a"), props: propText(authData, "x")}.bytes())
		c.expectRefusal(0, protocolError)
	}, notOn(kindMosquitto, "2.0.11 lets it pass"))
}

// TestAuthUninvited shows [MQTT-4.12.0-6] [MQTT-4.12.0-7]: without a method in CONNECT
// there is no AUTH from either side; [MQTT-4.12.1-1] so no client can re-authenticate.
func TestAuthUninvited(t *testing.T) {
	play(t, onlyFive, func(s *scene) {
		for name, body := range map[string][]byte{
			"continue":       cat([]byte{0x18}, withLength(v5, propText(authMethod, "x"))),
			"again":          cat([]byte{0x19}, withLength(v5, propText(authMethod, "x"))),
			"success":        {},
			"without method": {0x18, 0},
		} {
			s.each(name, func(s *scene) {
				c := s.join(connect{})
				c.send(frame(typeAuth, body))
				c.expectEnd(protocolError)
			})
		}
	})
}

// TestAuthBeforeFive shows that type 15 means nothing before MQTT 5.
func TestAuthBeforeFive(t *testing.T) {
	play(t, beforeFive, func(s *scene) {
		c := s.join(connect{})
		c.send(frame(typeAuth, []byte{0x18, 0}))
		c.expectClosed()
	})
}

// TestLastPacketFits shows [MQTT-3.2.2-19] [MQTT-3.2.2-20] and [MQTT-3.14.2-3]
// [MQTT-3.14.2-4]: a refusal and a DISCONNECT do not exceed the client's maximum packet
// size; [MQTT-4.13.2-1]: the connection ends even if no packet fits.
func TestLastPacketFits(t *testing.T) {
	play(t, onlyFive, func(s *scene) {
		for _, limit := range []uint32{4, 5, 8, 30, 60} {
			if limit == 4 && s.on(kindMosquitto) {
				continue // whose shortest refusal has five bytes
			}
			c := s.dial()
			c.send(connect{version: v5, clientID: s.id("a"),
				props: cat(propText(authMethod, "x"), propU32(maximumPacketSize, limit))}.bytes())
			c.expectNoLonger(typeConnack, limit)
		}
		for _, limit := range []uint32{30, 60} {
			c := s.join(connect{props: propU32(maximumPacketSize, limit)})
			c.send([]byte{typePublish | 6, 0})
			c.expectNoLonger(typeDisconnect, limit)
		}
	})
}

// TestAnswersFit shows [MQTT-3.1.2-24] of packets that cannot be made shorter: CONNACK,
// SUBACK and UNSUBACK. If the response would not fit, the request has no effect, and the
// connection ends.
func TestAnswersFit(t *testing.T) {
	play(t, onlyFive, func(s *scene) {
		if s.on(kindMosquitto) {
			return // which sends some of them
		}
		for _, limit := range []uint32{1, 2, 4, 5, 8, 10} {
			c := s.dial()
			c.send(connect{version: v5, clientID: s.id("a"), props: propU32(maximumPacketSize, limit)}.bytes())
			c.expectNoLonger(typeConnack, limit)
		}
		const limit = 60
		var many []filter
		var names []string
		for i := range 100 {
			names = append(names, s.topic(fmt.Sprint(i)))
			many = append(many, filter{names[i], 0})
		}
		keep := connect{clientID: s.id("keeps"), props: cat(propU32(maximumPacketSize, limit), propU32(sessionExpiry, 600))}
		c := s.join(keep)
		c.send(subscribe(v5, 3, nil, many...))
		c.expectNoLonger(typeDisconnect, limit)
		keep.keep = true
		c = s.join(keep)
		s.join(connect{}).publish(publish{topic: names[0], qos: 1, payload: "x"})
		c.subscribe(0, names[0], names[1])
		c.send(unsubscribe(v5, 4, nil, names...))
		c.expectNoLonger(typeDisconnect, limit)
		c = s.join(keep)
		s.join(connect{}).publish(publish{topic: names[1], payload: "still there"})
		c.receive(publish{topic: names[1], payload: "still there"})
	})
}

// expectNoLonger expects the connection to end after no packet but one of a type, which is
// no longer than a limit in bytes.
func (c *client) expectNoLonger(kind byte, limit uint32) {
	c.Helper()
	p, err := c.read()
	if stillOpen(err) {
		c.Fatalf("%s: the connection is open still", c.name)
	}
	if err != nil {
		return
	}
	if p.kind() != kind || uint32(len(p.raw)) > limit {
		c.Errorf("%s: got %v of %d bytes, want no more than %d", c.name, p, len(p.raw), limit)
	}
	c.expectClosed()
}

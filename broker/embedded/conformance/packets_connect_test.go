package conformance

import "testing"

// TestMalformedConnect shows [MQTT-3.1.4-1]: a malformed CONNECT ends the connection,
// without CONNACK before MQTT 5 and if it is malformed before its version.
func TestMalformedConnect(t *testing.T) {
	play(t, []byte{v311, v5}, func(s *scene) {
		head := cat(text("MQTT"), []byte{s.version, 2, 0, 0}, withLength(s.version, nil))
		for name, packet := range map[string][]byte{
			"nothing":                frame(typeConnect),
			"half a name":            frame(typeConnect, []byte{0, 4, 'M', 'Q'}),
			"no level":               frame(typeConnect, text("MQTT")),
			"no flags":               frame(typeConnect, text("MQTT"), []byte{s.version}),
			"no keep-alive":          frame(typeConnect, text("MQTT"), []byte{s.version, 2}),
			"half a keep-alive":      frame(typeConnect, text("MQTT"), []byte{s.version, 2, 0}),
			"no client id":           frame(typeConnect, head),
			"half a client id":       frame(typeConnect, head, []byte{0, 5, 'a'}),
			"bytes after the end":    frame(typeConnect, head, text("a"), []byte{0}),
			"flags in its header 1":  frame(typeConnect|1, head, text(s.id("a"))),
			"flags in its header 2":  frame(typeConnect|2, head, text(s.id("a"))),
			"flags in its header 4":  frame(typeConnect|4, head, text(s.id("a"))),
			"flags in its header 8":  frame(typeConnect|8, head, text(s.id("a"))),
			"client id not UTF-8":    frame(typeConnect, head, text("a\xff\xfe")),
			"client id with NUL":     frame(typeConnect, head, text("a\x00b")),
			"client id of surrogate": frame(typeConnect, head, text("\xed\xbf\xbf")),
		} {
			s.each(name, func(s *scene) {
				c := s.dial()
				c.send(packet)
				if packet[0] != typeConnect || len(packet) < len(frame(typeConnect, text("MQTT"), []byte{v5})) {
					c.expectClosed()
				} else {
					c.expectRefusal(hangUp, malformedPacket, protocolError, badClientID)
				}
			})
		}
	})
}

// TestMalformedUsername shows [MQTT-3.1.3-11], in MQTT 5 [MQTT-3.1.3-12]: a
// username is UTF-8; a password is any bytes.
func TestMalformedUsername(t *testing.T) {
	play(t, []byte{v311, v5}, func(s *scene) {
		for _, name := range []string{"\xff", "a\x00", "\xed\xa0\x80", "\xc0\x80"} {
			c := s.dial()
			c.send(connect{version: s.version, clientID: s.id("a"), username: name, password: "x"}.bytes())
			c.expectRefusal(hangUp, malformedPacket, protocolError)
		}
	})
}

// TestMalformedConnectProperties shows which properties a CONNECT may have, and which
// values: all others are malformed or an error [MQTT-4.13.1-1].
func TestMalformedConnectProperties(t *testing.T) {
	play(t, onlyFive, func(s *scene) {
		for name, props := range map[string][]byte{
			"session expiry twice":         cat(propU32(sessionExpiry, 1), propU32(sessionExpiry, 1)),
			"receive maximum twice":        cat(propU16(receiveMaximum, 1), propU16(receiveMaximum, 1)),
			"receive maximum 0":            propU16(receiveMaximum, 0),
			"packet size twice":            cat(propU32(maximumPacketSize, 99), propU32(maximumPacketSize, 99)),
			"packet size 0":                propU32(maximumPacketSize, 0),
			"topic alias maximum twice":    cat(propU16(topicAliasMaximum, 1), propU16(topicAliasMaximum, 1)),
			"response information twice":   cat(propByte(requestResponseInfo, 1), propByte(requestResponseInfo, 1)),
			"response information 2":       propByte(requestResponseInfo, 2),
			"problem information twice":    cat(propByte(requestProblemInfo, 1), propByte(requestProblemInfo, 1)),
			"problem information 2":        propByte(requestProblemInfo, 2),
			"authentication method twice":  cat(propText(authMethod, "x"), propText(authMethod, "x")),
			"user property not UTF-8":      user("\xff", ""),
			"user property with NUL":       user("", "\x00"),
			"half a user property":         cat([]byte{userProperty}, text("name")),
			"half an expiry":               {sessionExpiry, 0, 0},
			"an unknown property":          {0x7f, 0},
			"property 0":                   {0, 0},
			"a property of PUBLISH":        propByte(payloadFormat, 1),
			"topic alias":                  propU16(topicAlias, 1),
			"subscription identifier":      propVarint(subscriptionIdentifier, 1),
			"assigned client id":           propText(assignedClientID, "x"),
			"server keep alive":            propU16(serverKeepAlive, 1),
			"reason string":                propText(reasonString, "x"),
			"maximum QoS":                  propByte(maximumQoS, 1),
			"retain available":             propByte(retainAvailable, 1),
			"will delay outside of a Will": propU32(willDelay, 1),
		} {
			s.each(name, func(s *scene) {
				d := s.dial()
				d.send(connect{version: v5, clientID: s.id("a"), props: props}.bytes())
				d.expectRefusal(0, malformedPacket, protocolError)
			})
		}
	})
}

// TestMalformedWillProperties shows the same for the properties of a Will.
func TestMalformedWillProperties(t *testing.T) {
	play(t, onlyFive, func(s *scene) {
		for name, props := range map[string][]byte{
			"delay twice":             cat(propU32(willDelay, 1), propU32(willDelay, 1)),
			"payload format twice":    cat(propByte(payloadFormat, 1), propByte(payloadFormat, 1)),
			"payload format 2":        propByte(payloadFormat, 2),
			"expiry twice":            cat(propU32(messageExpiry, 1), propU32(messageExpiry, 1)),
			"content type twice":      cat(propText(contentType, "a"), propText(contentType, "a")),
			"content type not UTF-8":  propText(contentType, "\xff"),
			"response topic twice":    cat(propText(responseTopic, "a"), propText(responseTopic, "a")),
			"response topic wildcard": propText(responseTopic, "a/#"),
			"correlation data twice":  cat(propText(correlationData, "a"), propText(correlationData, "a")),
			"topic alias":             propU16(topicAlias, 1),
			"subscription identifier": propVarint(subscriptionIdentifier, 1),
			"session expiry":          propU32(sessionExpiry, 1),
			"unknown":                 {0x7e, 1},
		} {
			if s.on(kindMosquitto) && (name == "payload format 2" || name == "response topic wildcard") {
				continue // which 2.0.11 accepts
			}
			s.each(name, func(s *scene) {
				c := s.dial()
				c.send(connect{version: v5, clientID: s.id("a"),
					will: &will{topic: s.topic("w"), payload: "x", props: props}}.bytes())
				c.expectRefusal(0, malformedPacket, protocolError, topicInvalid)
			})
		}
	})
}

// TestMalformedPropertyLength shows that a property part must have the length that it
// states [MQTT-2.2.2-1].
func TestMalformedPropertyLength(t *testing.T) {
	play(t, onlyFive, func(s *scene) {
		for name, part := range map[string][]byte{
			"too long":         cat([]byte{20}, propU32(sessionExpiry, 1)),
			"too short":        cat([]byte{3}, propU32(sessionExpiry, 1)),
			"not minimal":      {0x80, 0},
			"over four bytes":  {0xff, 0xff, 0xff, 0xff, 1},
			"longer than that": {0xff, 0xff, 0xff, 0x7f},
		} {
			s.each(name, func(s *scene) {
				c := s.dial()
				c.send(frame(typeConnect, text("MQTT"), []byte{v5, 2, 0, 0}, part, text(s.id("a"))))
				c.expectRefusal(0, malformedPacket, protocolError)
			})
		}
	})
}

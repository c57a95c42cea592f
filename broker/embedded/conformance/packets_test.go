package conformance

import (
	"fmt"
	"testing"
)

// bad is a packet that a connected client must not send.
type bad struct {
	name    string
	packet  []byte
	reasons []byte // that MQTT 5 may send; malformed or protocol error if nil
	taken   bool   // accepted by Mosquitto 2.0.11, which is less strict
}

// refused sends each of the packets on a new connection, which must end and leave others
// unaffected.
func refused(s *scene, packets []bad) {
	s.Helper()
	other := s.join(connect{})
	for _, b := range packets {
		if b.taken && s.on(kindMosquitto) {
			continue
		}
		s.each(b.name, func(s *scene) {
			c := s.join(connect{})
			c.send(b.packet)
			if b.reasons == nil {
				b.reasons = []byte{malformedPacket, protocolError}
			}
			c.expectEnd(b.reasons...)
		})
	}
	other.expectPong()
}

// TestReservedTypes shows that types 0 and, before MQTT 5, 15 are forbidden, as
// are those that only a server sends [MQTT-4.8.0-1], in MQTT 5 [MQTT-4.13.1-1].
func TestReservedTypes(t *testing.T) {
	play(t, []byte{v311, v5}, func(s *scene) {
		refused(s, []bad{
			{name: "type 0", packet: []byte{0, 0}},
			{name: "type 0 with a body", packet: []byte{0x0f, 2, 1, 1}},
			{name: "CONNACK", packet: frame(typeConnack, []byte{0, 0}, withLength(s.version, nil))},
			{name: "SUBACK", packet: suback(s.version, 1, 0), taken: true},
			{name: "UNSUBACK", packet: unsuback(s.version, 1, 0), taken: true},
			{name: "PINGRESP", packet: pingresp(), taken: true},
		})
	})
}

// TestReservedFlags shows [MQTT-2.2.2-1] [MQTT-2.2.2-2], in MQTT 5 [MQTT-2.1.3-1], and for
// single packets [MQTT-3.6.1-1] [MQTT-3.8.1-1] [MQTT-3.10.1-1] [MQTT-3.14.1-1]
// [MQTT-3.15.1-1]: the flags in the first byte must have their fixed values.
func TestReservedFlags(t *testing.T) {
	play(t, []byte{v311, v5}, func(s *scene) {
		var packets []bad
		for name, packet := range map[string][]byte{
			"PUBACK":      ack(s.version, typePuback, 1, success),
			"PUBREC":      ack(s.version, typePubrec, 1, success),
			"PUBREL":      ack(s.version, typePubrel, 1, success),
			"PUBCOMP":     ack(s.version, typePubcomp, 1, success),
			"SUBSCRIBE":   subscribe(s.version, 1, nil, filter{"x", 0}),
			"UNSUBSCRIBE": unsubscribe(s.version, 1, nil, "x"),
			"PINGREQ":     pingreq(),
			"DISCONNECT":  disconnect(s.version, success, nil),
		} {
			for flags := range byte(16) {
				if flags != packet[0]&15 {
					wrong := cat([]byte{packet[0]&0xf0 | flags}, packet[1:])
					packets = append(packets, bad{name: fmt.Sprintf("%s %x", name, flags), packet: wrong})
				}
			}
		}
		refused(s, packets)
	}, notOn(kindMosquitto, "2.0.11 looks at the flags of few packets"))
}

// TestReservedFlagsOfAuth shows [MQTT-3.15.1-1].
func TestReservedFlagsOfAuth(t *testing.T) {
	play(t, onlyFive, func(s *scene) {
		var packets []bad
		for flags := byte(1); flags < 16; flags++ {
			packets = append(packets, bad{name: fmt.Sprintf("AUTH %x", flags), packet: frame(typeAuth | flags)})
		}
		refused(s, packets)
	})
}

// TestRemainingLength shows that a remaining length has at most four bytes
// [MQTT-4.8.0-1], and no more than it needs, in MQTT 5 [MQTT-1.5.5-1].
func TestRemainingLength(t *testing.T) {
	play(t, []byte{v311, v5}, func(s *scene) {
		refused(s, []bad{
			{name: "five bytes", packet: []byte{typePingreq, 0x80, 0x80, 0x80, 0x80, 0}},
			{name: "more than it needs", packet: []byte{typePingreq, 0x80, 0}},
			{name: "endless", packet: []byte{typePublish, 0xff, 0xff, 0xff, 0xff, 0xff}},
		})
	}, notOn(kindMosquitto, "2.0.11 hangs up without a word"))
}

// TestTopicOfPublish shows [MQTT-3.3.2-1] [MQTT-3.3.2-2] and [MQTT-4.7.1-1] [MQTT-4.7.3-1]
// [MQTT-4.7.3-2], in MQTT 5 [MQTT-4.7.0-1]: valid topic names.
func TestTopicOfPublish(t *testing.T) {
	play(t, []byte{v311, v5}, func(s *scene) {
		var packets []bad
		for name, topic := range map[string]string{
			"empty": "", "#": "#", "+": "+", "a/#": "a/#", "a/+/b": "a/+/b", "a+": "a+", "#a": "#a",
			"NUL": "a\x00", "not UTF-8": "\xff", "surrogate": "\xed\xa0\x80", "over-long": "\xc0\xaf", "cut short": "\xe4\xb8",
		} {
			for qos := range byte(3) {
				packets = append(packets, bad{
					name:    fmt.Sprintf("%s QoS %d", name, qos),
					packet:  publish{topic: topic, payload: "x", qos: qos, id: 1}.bytes(s.version),
					reasons: []byte{malformedPacket, protocolError, topicInvalid},
				})
			}
		}
		refused(s, packets)
	})
}

// TestMalformedPublish shows [MQTT-3.3.1-4] (no QoS 3), [MQTT-3.3.1-2] (no DUP at QoS 0),
// [MQTT-2.3.1-1] (in MQTT 5 [MQTT-2.2.1-3]: no packet identifier 0) and that no field may
// be missing.
func TestMalformedPublish(t *testing.T) {
	play(t, []byte{v311, v5}, func(s *scene) {
		refused(s, []bad{
			{name: "QoS 3", packet: frame(typePublish|0x06, text("x"), u16(1), withLength(s.version, nil))},
			{name: "QoS 3 DUP", packet: frame(typePublish|0x0e, text("x"), u16(1), withLength(s.version, nil))},
			{name: "DUP at QoS 0", packet: publish{topic: "x", dup: true}.bytes(s.version), taken: true},
			{name: "packet identifier 0", packet: publish{topic: "x", qos: 1}.bytes(s.version)},
			{name: "packet identifier 0 at QoS 2", packet: publish{topic: "x", qos: 2}.bytes(s.version)},
			{name: "nothing", packet: frame(typePublish)},
			{name: "half a length", packet: frame(typePublish, []byte{0})},
			{name: "half a topic", packet: frame(typePublish, []byte{0, 9, 'x'})},
			{name: "no packet identifier", packet: frame(typePublish|2, text("x"))},
			{name: "half a packet identifier", packet: frame(typePublish|2, text("x"), []byte{1})},
		})
	})
}

// TestMalformedPublishProperties shows what a client's PUBLISH may not contain: among
// others [MQTT-3.3.2-8] [MQTT-3.3.2-9] [MQTT-3.2.2-17] topic aliases out of bounds,
// [MQTT-3.3.2-13] [MQTT-3.3.2-14] invalid response topics, [MQTT-3.3.4-6] subscription
// identifiers, [MQTT-3.3.2-19] a content type that is not UTF-8, [MQTT-1.5.7-1] such a user
// property, and [MQTT-1.5.4-2] NUL.
func TestMalformedPublishProperties(t *testing.T) {
	play(t, onlyFive, func(s *scene) {
		alias := []byte{topicAliasInvalid}
		var packets []bad
		for _, c := range []struct {
			name    string
			props   []byte
			reasons []byte
			taken   bool
		}{
			{"topic alias 0", propU16(topicAlias, 0), alias, true},
			{"topic alias too high", propU16(topicAlias, 65535), alias, false},
			{"topic alias twice", cat(propU16(topicAlias, 1), propU16(topicAlias, 1)), nil, false},
			{"response topic with #", propText(responseTopic, "a/#"), []byte{malformedPacket, protocolError, topicInvalid}, true},
			{"response topic with +", propText(responseTopic, "+"), []byte{malformedPacket, protocolError, topicInvalid}, true},
			{"response topic not UTF-8", propText(responseTopic, "\xff"), nil, false},
			{"response topic with NUL", propText(responseTopic, "\x00"), nil, false},
			{"response topic twice", cat(propText(responseTopic, "a"), propText(responseTopic, "a")), nil, false},
			{"subscription identifier", propVarint(subscriptionIdentifier, 1), nil, true},
			{"subscription identifier 0", propVarint(subscriptionIdentifier, 0), nil, true},
			{"payload format 2", propByte(payloadFormat, 2), nil, true},
			{"payload format twice", cat(propByte(payloadFormat, 1), propByte(payloadFormat, 1)), nil, false},
			{"expiry twice", cat(propU32(messageExpiry, 1), propU32(messageExpiry, 1)), nil, false},
			{"content type not UTF-8", propText(contentType, "\xfe"), nil, false},
			{"content type twice", cat(propText(contentType, "a"), propText(contentType, "a")), nil, false},
			{"correlation data twice", cat(propText(correlationData, "a"), propText(correlationData, "a")), nil, false},
			{"user property not UTF-8", user("a", "\xc3\x28"), nil, false},
			{"user property with NUL", user("a\x00", "b"), nil, false},
			{"of CONNECT", propU32(sessionExpiry, 1), nil, false},
			{"reason string", propText(reasonString, "x"), nil, false},
			{"unknown", []byte{0x04, 0}, nil, false},
			{"two-byte identifier", []byte{0x81, 0x01, 0}, nil, false},
			{"cut short", []byte{messageExpiry, 0}, nil, false},
		} {
			packets = append(packets, bad{name: c.name, reasons: c.reasons, taken: c.taken,
				packet: publish{topic: "x", qos: 1, id: 1, props: c.props}.bytes(v5)})
		}
		packets = append(packets,
			bad{name: "length beyond the packet", packet: frame(typePublish, text("x"), []byte{9, 1, 1})},
			bad{name: "length not minimal", packet: frame(typePublish, text("x"), []byte{0x80, 0}, []byte("payload"))},
			bad{name: "no property length", packet: frame(typePublish, text("x"))},
			bad{name: "no topic and no alias", packet: publish{payload: "x"}.bytes(v5), reasons: []byte{protocolError, malformedPacket, topicInvalid, topicAliasInvalid}},
			bad{name: "no topic and an unknown alias", packet: publish{props: propU16(topicAlias, 1)}.bytes(v5), reasons: []byte{protocolError, topicAliasInvalid}},
		)
		refused(s, packets)
	})
}

// TestMalformedSubscribe shows [MQTT-3.8.3-1] to [MQTT-3.8.3-5] of either version, and
// [MQTT-4.7.1-1] [MQTT-4.7.1-2] [MQTT-4.7.1-3], [MQTT-4.7.3-1] [MQTT-4.7.3-2]: valid forms
// of a SUBSCRIBE and its filters.
func TestMalformedSubscribe(t *testing.T) {
	play(t, []byte{v311, v5}, func(s *scene) {
		one := func(name string, options byte) []byte {
			return subscribe(s.version, 1, nil, filter{name, options})
		}
		packets := []bad{
			{name: "nothing", packet: frame(typeSubscribe | 2)},
			{name: "no filter", packet: subscribe(s.version, 1, nil)},
			{name: "packet identifier 0", packet: subscribe(s.version, 0, nil, filter{"x", 0})},
			{name: "half a packet identifier", packet: frame(typeSubscribe|2, []byte{1})},
			{name: "no options", packet: frame(typeSubscribe|2, u16(1), withLength(s.version, nil), text("x"))},
			{name: "no options for the second", packet: frame(typeSubscribe|2, u16(1), withLength(s.version, nil), text("x"), []byte{0}, text("y"))},
			{name: "half a filter", packet: frame(typeSubscribe|2, u16(1), withLength(s.version, nil), []byte{0, 9, 'x'})},
			{name: "an empty filter and no options", packet: []byte{0x82, 5, 0, 1, 0, 0, 0}},
			{name: "QoS 3", packet: one("x", 3)},
			{name: "reserved bit 6", packet: one("x", 0x40)},
			{name: "reserved bit 7", packet: one("x", 0x80)},
			{name: "filter not UTF-8", packet: one("\xff", 0)},
			{name: "filter with NUL", packet: one("a\x00", 0)},
			{name: "filter of a surrogate", packet: one("\xed\xa0\x80", 0)},
		}
		if s.five() {
			packets = append(packets,
				bad{name: "retain handling 3", packet: one("x", 0x30)},
				bad{name: "no local on a shared subscription", packet: one("$share/g/x", noLocal), taken: true})
		} else {
			packets = append(packets, bad{name: "options of MQTT 5", packet: one("x", noLocal)})
		}
		refused(s, packets)
	})
}

// TestInvalidFilters shows [MQTT-4.7.1-1] [MQTT-4.7.1-2] [MQTT-4.7.1-3] [MQTT-4.7.3-1] and
// [MQTT-4.8.2-1] [MQTT-4.8.2-2]: invalid filters are refused, in SUBACK or by ending the
// connection.
func TestInvalidFilters(t *testing.T) {
	play(t, []byte{v311, v5}, func(s *scene) {
		names := []string{"", "a#", "a/#/b", "#/", "##", "a+", "+a", "a/+b/c", "++", "a/b#"}
		if s.five() {
			names = append(names, s.invalidShares()...)
		}
		for _, name := range names {
			s.each(fmt.Sprintf("%q", name), func(s *scene) {
				c := s.join(connect{})
				c.send(subscribe(s.version, 1, nil, filter{name, 0}))
				c.expectRefusedFilter()
			})
		}
	})
}

// invalidShares lists invalid shared subscriptions. Mosquitto 2.0.11 accepts most of them.
func (s *scene) invalidShares() []string {
	names := []string{"$share/a+/x", "$share/#/x"}
	if s.on(kindMosquitto) {
		return names
	}
	return append(names, "$share/g", "$share//x", "$share/g/", "$share/")
}

// expectRefusedFilter expects a subscription to be refused, by the end of the connection or
// in SUBACK.
func (c *client) expectRefusedFilter() {
	c.Helper()
	p, err := c.read()
	switch {
	case err != nil:
		c.expectClosed()
	case p.kind() == typeSuback && len(p.codes) == 1 && p.codes[0] >= 0x80:
		c.expectPong()
	case p.kind() == typeDisconnect && c.five() && p.reason() >= 0x80:
		c.expectClosed()
	default:
		c.Errorf("%s: got %v, want the filter refused", c.name, p)
	}
}

// TestMalformedSubscribeProperties shows the valid properties of a SUBSCRIBE of MQTT 5.
func TestMalformedSubscribeProperties(t *testing.T) {
	play(t, onlyFive, func(s *scene) {
		var packets []bad
		for name, props := range map[string][]byte{
			"subscription identifier 0":        propVarint(subscriptionIdentifier, 0),
			"subscription identifier twice":    cat(propVarint(subscriptionIdentifier, 1), propVarint(subscriptionIdentifier, 2)),
			"subscription identifier too long": {subscriptionIdentifier, 0xff, 0xff, 0xff, 0xff, 1},
			"user property not UTF-8":          user("\xff", ""),
			"of PUBLISH":                       propByte(payloadFormat, 1),
			"unknown":                          {0x7f, 1},
			"topic alias":                      propU16(topicAlias, 1),
		} {
			packets = append(packets, bad{name: name, packet: subscribe(v5, 1, props, filter{"x", 0})})
		}
		refused(s, packets)
	})
}

// TestMalformedUnsubscribe shows [MQTT-3.10.3-1] [MQTT-3.10.3-2] and, as for
// every packet with one, that its packet identifier is not 0.
func TestMalformedUnsubscribe(t *testing.T) {
	play(t, []byte{v311, v5}, func(s *scene) {
		packets := []bad{
			{name: "nothing", packet: frame(typeUnsubscribe | 2)},
			{name: "no filter", packet: unsubscribe(s.version, 1, nil)},
			{name: "packet identifier 0", packet: unsubscribe(s.version, 0, nil, "x")},
			{name: "half a filter", packet: frame(typeUnsubscribe|2, u16(1), withLength(s.version, nil), []byte{0, 9, 'x'})},
			{name: "half a length", packet: frame(typeUnsubscribe|2, u16(1), withLength(s.version, nil), []byte{0})},
			{name: "filter not UTF-8", packet: unsubscribe(s.version, 1, nil, "\xff")},
			{name: "filter with NUL", packet: unsubscribe(s.version, 1, nil, "a\x00")},
		}
		if s.five() {
			packets = append(packets,
				bad{name: "a property of PUBLISH", packet: unsubscribe(v5, 1, propByte(payloadFormat, 1), "x")},
				bad{name: "subscription identifier", packet: unsubscribe(v5, 1, propVarint(subscriptionIdentifier, 1), "x")})
		}
		refused(s, packets)
	})
}

// TestMalformedAcknowledgements shows that PUBACK, PUBREC, PUBREL and PUBCOMP have a packet
// identifier that is not 0, before MQTT 5 nothing else, and from there on a valid reason of
// their own [MQTT-3.4.2-1] [MQTT-3.5.2-1] [MQTT-3.6.2-1] [MQTT-3.7.2-1] and valid
// properties.
func TestMalformedAcknowledgements(t *testing.T) {
	play(t, []byte{v311, v5}, func(s *scene) {
		var packets []bad
		for name, first := range map[string]byte{
			"PUBACK": typePuback, "PUBREC": typePubrec, "PUBREL": typePubrel | 2, "PUBCOMP": typePubcomp,
		} {
			taken := false
			add := func(what string, body ...byte) {
				packets = append(packets, bad{name: name + " " + what, packet: frame(first, body), taken: taken})
			}
			add("of nothing")
			add("of one byte", 1)
			add("for packet identifier 0", 0, 0)
			taken = true
			if !s.five() {
				add("with a reason", 0, 1, 0)
				continue
			}
			add("with another packet's reason", 0, 1, 0x84)
			add("with an unknown reason", 0, 1, 0x7f)
			add("with half a property", 0, 1, 0, 3, reasonString, 0)
			add("with a property of PUBLISH", 0, 1, 0, 2, payloadFormat, 1)
			add("with properties beyond the end", 0, 1, 0, 9)
			add("with bytes after the end", 0, 1, 0, 0, 0)
			add("with two reason strings", 0, 1, 0, 6, reasonString, 0, 0, reasonString, 0, 0)
		}
		refused(s, packets)
	})
}

// TestMalformedEmptyPackets shows that PINGREQ has no body, and before MQTT 5
// DISCONNECT has none.
func TestMalformedEmptyPackets(t *testing.T) {
	play(t, []byte{v311, v5}, func(s *scene) {
		packets := []bad{{name: "PINGREQ", packet: frame(typePingreq, []byte{0}), taken: true}}
		if !s.five() {
			packets = append(packets, bad{name: "DISCONNECT", packet: frame(typeDisconnect, []byte{0})})
		}
		refused(s, packets)
	})
}

// TestMalformedDisconnect shows [MQTT-3.14.1-1] [MQTT-3.14.2-1] and the valid properties of
// a client's DISCONNECT.
func TestMalformedDisconnect(t *testing.T) {
	play(t, onlyFive, func(s *scene) {
		refused(s, []bad{
			{name: "unknown reason", packet: disconnect(v5, 0x7f, nil)},
			{name: "another packet's reason", packet: disconnect(v5, noMatchingSubscribers, nil)},
			{name: "properties beyond the end", packet: frame(typeDisconnect, []byte{0, 5, reasonString})},
			{name: "bytes after the end", packet: frame(typeDisconnect, []byte{0, 0, 0})},
			{name: "expiry twice", packet: disconnect(v5, 0, cat(propU32(sessionExpiry, 0), propU32(sessionExpiry, 0)))},
			{name: "a property of PUBLISH", packet: disconnect(v5, 0, propByte(payloadFormat, 0))},
			{name: "reason string not UTF-8", packet: disconnect(v5, 0, propText(reasonString, "\xff"))},
			{name: "reason string twice", packet: disconnect(v5, 0, cat(propText(reasonString, ""), propText(reasonString, "")))},
		})
	})
}

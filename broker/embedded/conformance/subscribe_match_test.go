package conformance

import (
	"fmt"
	"strings"
	"testing"
)

// matches are filters with the topics that they match, and topics that they do not. Each is
// prefixed by a level of the scene's own, so these are about the levels below.
var matches = []struct {
	filter string
	is     []string
	not    []string
}{
	{"a/b", []string{"a/b"}, []string{"a", "a/B", "a/b/", "a/bc", "/a/b", "a/b/c", "A/b", "a/ b", "a/b "}},
	{"a/#", []string{"a", "a/", "a/b", "a/b/c", "a//", "a/$x"}, []string{"b", "ab", "A", "/a", "b/a"}},
	{"#", []string{"a", "", "/", "a/b/c", "$x"}, nil},
	{"a/+", []string{"a/b", "a/", "a/ "}, []string{"a", "a/b/c", "a//", "b/a"}},
	{"+/b", []string{"a/b", "/b", "$x/b"}, []string{"b", "a/b/c", "a//b"}},
	{"+", []string{"a", ""}, []string{"a/b", "/", "a/"}},
	{"+/+", []string{"a/b", "/", "a/", "/b"}, []string{"a", "a/b/c", "//"}},
	{"a/+/c", []string{"a/b/c", "a//c"}, []string{"a/c", "a/b/b/c", "a/b/c/d"}},
	{"a/+/#", []string{"a/b", "a/b/c/d", "a/", "a//"}, []string{"a", "b/b"}},
	{"+/#", []string{"a", "a/b", "", "/", "a/b/c"}, nil},
	{"/", []string{"/"}, []string{"", "a", "//", "a/"}},
	{"//", []string{"//"}, []string{"/", "///", "a//"}},
	{"/#", []string{"/", "/a", "//", ""}, []string{"a", "a/"}},
	{" ", []string{" "}, []string{"", "  ", "a"}},
	{"ü/é/日本/😀", []string{"ü/é/日本/😀"}, []string{"u/é/日本/😀", "ü/e\u0301/日本/😀"}},
	{"\ufeffa", []string{"\ufeffa"}, []string{"a"}},
}

// TestTopicMatching covers the rules of topic filters: `#` [MQTT-4.7.1-1] and `+`
// [MQTT-4.7.1-2], case, spaces and empty levels [MQTT-4.7.3-1, MQTT-4.7.3-4], characters
// without normalisation [MQTT-4.7.3-4, MQTT-1.5.4-3], and that a topic name sent matches
// the filter [MQTT-3.3.2-3].
func TestTopicMatching(t *testing.T) {
	play(t, everyVersion, func(s *scene) {
		publisher := s.join(connect{})
		for i, m := range matches {
			topic := func(rest string) string { return s.topic(fmt.Sprintf("f%d/%s", i, rest)) }
			live := s.join(connect{})
			live.subscribe(0, topic(m.filter))
			for _, name := range m.not {
				publisher.publish(publish{topic: topic(name), retain: true, payload: "not"})
			}
			live.expectNothing(publisher)
			for _, name := range m.is {
				publisher.publish(publish{topic: topic(name), retain: true, payload: "at " + name})
				live.receive(publish{topic: topic(name), payload: "at " + name})
			}
			live.expectPong()
			s.wantRetained(topic(m.filter), topic, m.is)
		}
	})
}

// wantRetained subscribes and expects the retained messages of exactly these topics, in any
// order.
func (s *scene) wantRetained(name string, topic func(string) string, names []string) {
	s.Helper()
	c := s.join(connect{})
	c.subscribe(0, name)
	missing := map[string]bool{}
	for _, n := range names {
		missing[topic(n)] = true
	}
	c.send(pingreq())
	for got := c.next(); got.kind() == typePublish; got = c.next() {
		if !missing[got.topic] {
			s.Errorf("filter %q: retained %q arrives", name, got.topic)
		}
		delete(missing, got.topic)
	}
	for topic := range missing {
		s.Errorf("filter %q: retained %q does not arrive", name, topic)
	}
	c.leave()
}

// TestTopicsWithDollar: a filter that begins with a wildcard does not match a
// topic that begins with `$`, live or retained [MQTT-4.7.2-1], nor does a shared
// one.
func TestTopicsWithDollar(t *testing.T) {
	play(t, everyVersion, func(s *scene) {
		publisher := s.join(connect{})
		topic := "$" + s.mark + "/x/y"
		wild := []string{"#", "+/#", "+/x/y", "+/+/y", "+/+/+"}
		var filters []string
		for _, f := range wild {
			filters = append(filters, f, "$share/"+s.mark+"/"+f)
		}
		exact := []string{topic, "$" + s.mark + "/#", "$" + s.mark + "/+/y"}
		if !s.on(kindMosquitto) { // 2.0.11 does not share such topics
			exact = append(exact, "$share/"+s.mark+"/$"+s.mark+"/#")
		}
		blind, sees := s.join(connect{}), []*client{}
		blind.subscribe(0, filters...)
		for _, f := range exact {
			c := s.join(connect{})
			c.subscribe(0, f)
			sees = append(sees, c)
		}
		publisher.publish(publish{topic: topic, retain: true, payload: "hidden"})
		for _, c := range sees {
			c.receive(publish{topic: topic, payload: "hidden"})
		}
		late := s.join(connect{})
		late.subscribe(0, wild...)
		last := s.topic("last")
		publisher.publish(publish{topic: last})
		for _, c := range []*client{blind, late} {
			for got := c.next(); got.topic != last; got = c.next() {
				if strings.HasPrefix(got.topic, "$") {
					s.Errorf("a filter that begins with a wildcard matches %q (retain %d)", got.topic, got.first&1)
				}
			}
		}
		publisher.publish(publish{topic: topic, retain: true})
	})
}

// TestSubscribeInvalidFilters: `#` only at the end and alone in its level
// [MQTT-4.7.1-1], `+` alone in its level [MQTT-4.7.1-2], at least one character
// [MQTT-4.7.3-1]. The connection ends, or in MQTT 5 the filter alone is refused.
func TestSubscribeInvalidFilters(t *testing.T) {
	play(t, everyVersion, func(s *scene) {
		for _, name := range []string{"", "a#", "a/#/b", "#a", "a/b#", "##", "#/", "a+", "+a/b", "a/+b", "a/b+/c", "++"} {
			c := s.join(connect{})
			c.sendAnyway(subscribe(s.version, 1, nil, filter{name, 0}))
			switch got, err := c.read(); {
			case err != nil:
			case got.kind() == typeDisconnect && s.five():
				c.expectClosed()
			case got.kind() == typeSuback && len(got.codes) == 1 && got.codes[0] >= 0x80:
			default:
				s.Errorf("filter %q: got %v", name, got)
			}
		}
	})
}

// TestSubscribeToSystemTopics: $SYS can be subscribed to if the broker has it.
func TestSubscribeToSystemTopics(t *testing.T) {
	play(t, everyVersion, func(s *scene) {
		c := s.join(connect{})
		c.subscribe(0, "$SYS/broker/version")
		if got := c.next(); got.topic != "$SYS/broker/version" || got.payload == "" || got.first&1 == 0 {
			s.Errorf("got %v, want the broker's version, retained", got)
		}
	})
}

// TestTopicsOfAnyLength: a topic may be as long as its length field allows, and have as
// many levels as Mosquitto allows; one with very many more is refused, by its packet or
// with the connection.
func TestTopicsOfAnyLength(t *testing.T) {
	play(t, everyVersion, func(s *scene) {
		publisher, c := s.join(connect{}), s.join(connect{})
		c.subscribe(1, s.topic("#"))
		for _, topic := range []string{
			s.topic(strings.Repeat("x", 65535-len(s.topic("")))),
			s.mark + strings.Repeat("/a", 200),
			s.mark + strings.Repeat("/", 200),
		} {
			publisher.publish(publish{topic: topic, qos: 1, payload: "x"})
			c.receive(publish{topic: topic, qos: 1, payload: "x"})
			exact := s.join(connect{})
			exact.subscribe(1, topic)
			exact.unsubscribe(topic, success)
			exact.leave()
		}
		deep := s.mark + strings.Repeat("/a", 30_000)
		publisher.sendAnyway(publish{topic: deep, qos: 1, id: 99, payload: "x"}.bytes(s.version))
		publisher.expectEnd(topicInvalid, protocolError)
		c.sendAnyway(subscribe(s.version, 99, nil, filter{deep, 0}))
		switch got, err := c.read(); {
		case err != nil:
		case got.kind() == typeSuback && got.reason() >= unspecifiedError:
		case got.kind() == typeDisconnect && s.five():
			c.expectClosed()
		default:
			s.Errorf("a filter of 30,000 levels: got %v", got)
		}
	})
}

package brokertest

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/eclipse/paho.golang/paho"
	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"signalbox/broker"
)

func streamRepublishCases() []testCase {
	var cases []testCase
	for qos := -1; qos <= 2; qos++ {
		cases = append(cases, testCase{name: fmt.Sprintf("target QoS %d, for messages of every QoS", qos),
			run: func(t *testing.T, s *fixture) { s.republishQoS(t, qos) }})
	}
	return append(cases,
		testCase{name: "a new stream takes the first message that comes", run: republishAtOnce},
		testCase{name: "all bytes and properties pass unchanged", run: republishProperties},
		testCase{name: "a query that is not processed changes nothing", run: republishUnprocessed},
		testCase{name: "what was retained before the stream is not taken", run: republishRetainedBefore},
		testCase{name: "the RETAIN flag is not passed on", run: republishRetain},
		testCase{name: "a source with wildcards takes what it matches and nothing else", run: republishWildcards},
		testCase{name: "topics with a leading $ are never taken", run: republishDollar},
		testCase{name: "1,000 messages of several topics keep their order", run: republishOrder},
		testCase{name: "overlapping and equal sources take every message once each", run: republishOverlap},
		testCase{name: "a stream that is not active does nothing", run: republishInactive},
		testCase{name: "a stream that was enabled takes the next message", run: republishEnabled},
		testCase{name: "a stream that is modified meanwhile loses nothing", run: republishModified},
		testCase{name: "another target and QoS are heeded from then on", run: republishRedirected},
		testCase{name: "another source is heeded from then on", run: republishMoved},
		testCase{name: "a stream that is deleted stops", run: republishDeleted},
		testCase{name: "a flood into one stream is accounted for, and delays no other", run: republishFlood},
	)
}

func (s *fixture) republishQoS(t *testing.T, target int) {
	f := s.flow(t, broker.StreamSpec{TargetQoS: &target})
	for source := range byte(3) {
		want := source
		if target >= 0 {
			want = byte(target)
		}
		f.send(t, &paho.Publish{QoS: source, Payload: []byte("x")})
		f.awaitProcessed(t)
		if got := f.mqtt5.collect(t, f.target, 1); len(got) != 1 || got[0].QoS != want {
			t.Errorf("a message of QoS %d came %d times, with QoS %d; want once, with QoS %d", source, len(got), got[0].QoS, want)
		}
	}
}

func republishAtOnce(t *testing.T, s *fixture) {
	p := s.mqtt5Client(t, "first/out/+")
	for i := range 20 {
		name, target := s.name("first"), fmt.Sprint("first/out/", i)
		s.createStream(t, broker.StreamSpec{StreamName: name, SourceTopic: &name, TargetTopic: &target})
		p.publish(t, name, "1")
		p.wants(t, target, "1")
	}
}

// properties returns all properties that a message of MQTT 5 passes on [MQTT-3.3.2.3].
func properties() *paho.PublishProperties {
	return &paho.PublishProperties{
		ContentType: "text/plain; charset=utf-8", ResponseTopic: "answers/µ", CorrelationData: []byte{0, 1, 0xff},
		PayloadFormat: new(byte(1)),
		User:          paho.UserProperties{{Key: "z", Value: "1"}, {Key: "a", Value: "ä"}, {Key: "z", Value: "2"}, {Key: "", Value: ""}},
	}
}

func republishProperties(t *testing.T, s *fixture) {
	f := s.flow(t, broker.StreamSpec{})
	binary := make([]byte, 1024)
	for i := range binary {
		binary[i] = byte(i * 7)
	}
	expiring := properties()
	expiring.MessageExpiry = new(uint32(1000))
	for _, m := range []*paho.Publish{
		{QoS: 1, Payload: []byte("tëxt"), Properties: properties()},
		{QoS: 2, Payload: []byte("text"), Properties: expiring},
		{QoS: 1, Payload: binary},
		{QoS: 0, Payload: nil, Properties: &paho.PublishProperties{ContentType: "nothing"}},
	} {
		f.send(t, m)
		wantMessage(t, f.mqtt5.collect(t, f.target, 1), m)
	}
}

// wantMessage compares the only message that arrived with the one that was sent. An expiry may be
// shorter.
func wantMessage(t *testing.T, got []*paho.Publish, want *paho.Publish) {
	t.Helper()
	if len(got) != 1 {
		t.Fatalf("got %d messages, want 1", len(got))
	}
	if g := got[0]; string(g.Payload) != string(want.Payload) || g.QoS != want.QoS {
		t.Errorf("got %q with QoS %d, want %q with QoS %d", g.Payload, g.QoS, want.Payload, want.QoS)
	}
	sent, came := paho.PublishProperties{}, *got[0].Properties
	if want.Properties != nil {
		sent = *want.Properties
	}
	if sent.MessageExpiry != nil {
		if came.MessageExpiry == nil || *came.MessageExpiry > *sent.MessageExpiry || *came.MessageExpiry == 0 {
			t.Errorf("the message expires in %v seconds, want nearly %d", came.MessageExpiry, *sent.MessageExpiry)
		}
		came.MessageExpiry = sent.MessageExpiry
	}
	if diff := cmp.Diff(sent, came, cmpopts.EquateEmpty()); diff != "" {
		t.Errorf("properties (-want +got):\n%s", diff)
	}
}

func republishUnprocessed(t *testing.T, s *fixture) {
	f := s.flow(t, broker.StreamSpec{Process: new(false), Query: json.RawMessage(countingQuery)})
	f.publish(t, "no JSON", ` { "v" : 1 } `)
	f.wants(t, "no JSON", ` { "v" : 1 } `)
	f.modify(t, broker.StreamSpec{Process: new(true)})
	f.publish(t, ` { "v" : 1 } `)
	f.wantsJSON(t, `{"v":1,"n":1}`)
	f.modify(t, broker.StreamSpec{Process: new(false)})
	f.publish(t, ` { "v" : 2 } `)
	f.wants(t, ` { "v" : 2 } `)
}

func republishRetainedBefore(t *testing.T, s *fixture) {
	base := s.name("old")
	for _, topic := range []string{base + "/1", base + "/2"} {
		s.retain(t, topic, "old")
	}
	f := s.flow(t, broker.StreamSpec{SourceTopic: new(base + "/+")})
	f.topic = base + "/1"
	f.modify(t, broker.StreamSpec{Active: new(false)})
	f.modify(t, broker.StreamSpec{Active: new(true)})
	f.publish(t, "new")
	f.awaitProcessed(t)
	f.wants(t, "new")
}

func republishRetain(t *testing.T, s *fixture) {
	f := s.flow(t, broker.StreamSpec{Persist: new(true)})
	f.send(t, &paho.Publish{QoS: 1, Retain: true, Payload: []byte("kept")})
	f.awaitProcessed(t)
	f.replayToEnd(t, broker.StreamReplay{Limit: -1})
	for _, topic := range []string{f.target, f.replay} {
		if got := f.mqtt5.collect(t, topic, 1); len(got) != 1 || got[0].Retain {
			t.Errorf("%d messages came to %s, the first with RETAIN %t; want one, without", len(got), topic, got[0].Retain)
		}
		if topics, _ := s.retained(t, topic, 0, -1); len(topics) > 0 {
			t.Errorf("retained: %q", topics)
		}
	}
}

func republishWildcards(t *testing.T, s *fixture) {
	for filter, topics := range map[string]struct{ in, out []string }{
		"%s/+/in":    {[]string{"%s/a/in", "%s//in", "%s/b/in"}, []string{"%s/in", "%s/a/b/in", "%s/a/in/c", "x%s/a/in"}},
		"%s/a/#":     {[]string{"%s/a", "%s/a/b", "%s/a/b/c", "%s/a/"}, []string{"%s/b", "%s", "%s/ab"}},
		"+/%s/+/x/#": {[]string{"1/%s/2/x", "/%s//x/y/z"}, []string{"1/%s/x", "1/2/%s/x"}},
	} {
		base := s.name("wild")
		within := func(pattern string) string { return strings.ReplaceAll(pattern, "%s", base) }
		f := s.flow(t, broker.StreamSpec{SourceTopic: new(within(filter)), TargetTopic: new("to/" + s.name("out"))})
		for _, topic := range slices.Concat(topics.out, topics.in) {
			f.mqtt5.publish(t, within(topic), topic)
		}
		f.sent = int64(len(topics.in))
		f.awaitProcessed(t)
		f.wants(t, topics.in...)
	}
}

// republishDollar publishes below $ what a wildcard would match otherwise, in addition to the
// broker's own messages in $SYS and our commands.
func republishDollar(t *testing.T, s *fixture) {
	f := s.flow(t, broker.StreamSpec{SourceTopic: new("+/+/+"), TargetTopic: new("seen/" + s.name("dollar"))})
	d := s.device(t, allow(broker.PublishClientSend, "$any/#"))
	d.publish(t, "$any/b/c", "hidden", false)
	f.publish(t, "seen")
	f.wants(t, "seen")
	f.awaitProcessed(t)
}

func republishOrder(t *testing.T, s *fixture) {
	const n, topics = 1000, 4
	base := s.name("order")
	f := s.flow(t, broker.StreamSpec{SourceTopic: new(base + "/+")})
	batch := make([]*paho.Publish, n)
	want := make([]string, n)
	for i := range batch {
		want[i] = fmt.Sprintf("%d of topic %d", i/topics, i%topics)
		batch[i] = &paho.Publish{Topic: fmt.Sprintf("%s/%d", base, i%topics), QoS: 1, Payload: []byte(want[i])}
	}
	f.mqtt5.burst(t, batch)
	f.sent = n
	f.awaitProcessed(t)
	got := f.mqtt5.collect(t, f.target, n)
	for topic := range topics {
		of := fmt.Sprint(" of topic ", topic)
		ours := slices.DeleteFunc(slices.Clone(want), func(s string) bool { return !strings.HasSuffix(s, of) })
		came := []string{}
		for _, m := range got {
			if strings.HasSuffix(string(m.Payload), of) {
				came = append(came, string(m.Payload))
			}
		}
		if !slices.Equal(came, ours) {
			t.Errorf("%d messages came of %d, or out of order", len(came), len(ours))
		}
	}
}

// republishOverlap expects no order, as there is none between messages with different QoS
// [MQTT-4.6.0-6].
func republishOverlap(t *testing.T, s *fixture) {
	base := s.name("overlap")
	filters := []string{base + "/a/b", base + "/a/b", base + "/+/b", base + "/a/+", base + "/a/#", base + "/#", "+/a/b"}
	topic := base + "/a/b"
	var flows []*flow
	for _, filter := range filters {
		f := s.flow(t, broker.StreamSpec{SourceTopic: &filter, TargetTopic: new("to/" + s.name("target")), Persist: new(true)})
		f.sent = 30
		flows = append(flows, f)
	}
	p, want := s.mqtt5Client(t), []string{}
	for i := range 30 {
		want = append(want, fmt.Sprintf("%02d", i))
		p.send(t, &paho.Publish{Topic: topic, QoS: byte(i % 3), Payload: []byte(want[i])})
	}
	for _, f := range flows {
		f.awaitProcessed(t)
		got := []string{}
		for _, m := range f.mqtt5.collect(t, f.target, len(want)) {
			got = append(got, string(m.Payload))
		}
		slices.Sort(got)
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("came for %s (-want +got):\n%s", f.record(t).SourceTopic, diff)
		}
		if got := f.count(t); got != 30 {
			t.Errorf("%d messages are kept, want 30", got)
		}
	}
}

func republishInactive(t *testing.T, s *fixture) {
	f := s.flow(t, broker.StreamSpec{Active: new(false), Persist: new(true)})
	f.publish(t, "1", "2")
	f.mqtt5.passMark(t)
	f.modify(t, broker.StreamSpec{Active: new(true)})
	f.sent = 0
	f.publish(t, "3")
	f.awaitProcessed(t)
	f.wants(t, "3")
	if got := f.count(t); got != 1 {
		t.Errorf("%d messages are kept, want the one that came while the stream was active", got)
	}
}

// republishEnabled disables and enables a stream faster than a subscription ends.
func republishEnabled(t *testing.T, s *fixture) {
	f := s.flow(t, broker.StreamSpec{})
	for i := range 30 {
		f.modify(t, broker.StreamSpec{Active: new(false)})
		f.modify(t, broker.StreamSpec{Active: new(true)})
		text := fmt.Sprint(i)
		f.publish(t, text)
		f.wants(t, text)
	}
	f.awaitProcessed(t)
}

// republishModified changes the texts, and other irrelevant members, of a stream while it
// processes messages.
func republishModified(t *testing.T, s *fixture) {
	f := s.flow(t, broker.StreamSpec{})
	publisher := s.mqtt5Client(t)
	stop := make(chan struct{})
	var want []string
	var running sync.WaitGroup
	running.Go(func() {
		for i := 0; ; i++ {
			select {
			case <-stop:
				return
			default:
			}
			text := fmt.Sprint(i)
			if _, err := publisher.client.Publish(t.Context(), &paho.Publish{Topic: f.topic, QoS: 1, Payload: []byte(text)}); err != nil {
				t.Errorf("publish: %v", err)
				return
			}
			want = append(want, text)
		}
	})
	for i := range 100 {
		f.modify(t, broker.StreamSpec{TextName: new(fmt.Sprint("version ", i)), TTL: new(int64(i)), Persist: new(i%2 == 0)})
		if i%20 == 0 {
			came := len(f.mqtt5.got(f.target))
			WaitFor(t, "messages go on", func() bool { return len(f.mqtt5.got(f.target)) > came })
		}
	}
	close(stop)
	running.Wait()
	f.wants(t, want...)
}

func republishRedirected(t *testing.T, s *fixture) {
	f := s.flow(t, broker.StreamSpec{})
	f.publish(t, "1")
	f.wants(t, "1")
	second := f.target + "/2"
	f.mqtt5.subscribe(t, second)
	f.modify(t, broker.StreamSpec{TargetTopic: &second, TargetQoS: new(0)})
	f.publish(t, "2")
	got := f.mqtt5.collect(t, second, 1)
	if len(got) != 1 || string(got[0].Payload) != "2" || got[0].QoS != 0 {
		t.Errorf("came to the new target: %q", got)
	}
	f.wants(t)
	f.modify(t, broker.StreamSpec{TargetTopic: new("")})
	f.publish(t, "3")
	f.modify(t, broker.StreamSpec{TargetTopic: &second})
	f.publish(t, "4")
	WaitFor(t, "the fourth has come", func() bool { return slices.Contains(f.mqtt5.texts(second), "4") })
	f.wants(t)
}

func republishMoved(t *testing.T, s *fixture) {
	f := s.flow(t, broker.StreamSpec{})
	f.publish(t, "1")
	f.wants(t, "1")
	old := f.topic
	f.topic = old + "/2"
	f.modify(t, broker.StreamSpec{SourceTopic: &f.topic})
	f.mqtt5.publish(t, old, "to the old source")
	f.publish(t, "2")
	f.awaitProcessed(t)
	f.wants(t, "2")
}

func republishDeleted(t *testing.T, s *fixture) {
	f := s.flow(t, broker.StreamSpec{})
	other := s.flow(t, broker.StreamSpec{SourceTopic: &f.topic})
	f.publish(t, "1")
	f.wants(t, "1")
	must(t, s.Broker.DeleteStream(t.Context(), f.name))
	f.mqtt5.publish(t, f.topic, "2")
	other.wants(t, "1", "2")
	f.wants(t)
}

// republishFlood sends more than a stream's queue holds, at once.
func republishFlood(t *testing.T, s *fixture) {
	const n, size = 1500, 32 << 10
	f := s.flow(t, broker.StreamSpec{Query: json.RawMessage(countingQuery)})
	beside := s.flow(t, broker.StreamSpec{})
	document := fmt.Appendf(nil, `{"fill":"%s","v":1}`, strings.Repeat("é", size/2))
	batch := make([]*paho.Publish, n)
	for i := range batch {
		batch[i] = &paho.Publish{Topic: f.topic, Payload: document}
	}
	var flooding sync.WaitGroup
	flooding.Go(func() {
		for _, m := range batch {
			if _, err := f.mqtt5.client.Publish(t.Context(), m); err != nil {
				t.Errorf("flood: %v", err)
				return
			}
		}
	})
	want := []string{}
	for i := range 50 {
		want = append(want, fmt.Sprint(i))
		beside.publish(t, want[i])
	}
	beside.wants(t, want...)
	flooding.Wait()
	f.sent = n
	stats := f.awaitProcessed(t)
	f.mqtt5.collect(t, f.target, int(stats.Republished))
	t.Logf("of %d messages at once %d got through", n, stats.Republished)
}

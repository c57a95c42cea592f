package brokertest

import (
	"context"
	"encoding/json"
	"strings"
	"testing"

	"github.com/eclipse/paho.golang/paho"
	"github.com/google/go-cmp/cmp"

	"signalbox/broker"
)

// flow is a stream under test, with a client that publishes to its source and receives from its
// target and its replay topic.
type flow struct {
	*fixture
	name   string
	topic  string // topic of the flow's messages; matches the stream's source
	target string
	replay string

	mqtt5 *mqtt5Client
	sent  int64 // how many messages the stream has to have received
}

// anyLevel converts a filter to a topic that matches it.
var anyLevel = strings.NewReplacer("+", "any", "#", "any")

// flow creates a stream like spec with a name of its own and, unless spec has them, a source and
// a target of its own. A message that is published when it returns reaches the stream. The stream
// is deleted after the test.
func (s *fixture) flow(t *testing.T, spec broker.StreamSpec) *flow {
	t.Helper()
	name := s.name("flow")
	spec.StreamName = name
	if spec.SourceTopic == nil {
		spec.SourceTopic = new(name + "/in")
	}
	if spec.TargetTopic == nil {
		spec.TargetTopic = new(name + "/out")
	}
	f := &flow{fixture: s, name: name, topic: anyLevel.Replace(*spec.SourceTopic), target: *spec.TargetTopic, replay: name + "/again"}
	f.mqtt5 = s.mqtt5Client(t, f.replay)
	if f.target != "" {
		f.mqtt5.subscribe(t, f.target)
	}
	s.createStream(t, spec)
	return f
}

// createStream creates a stream that is deleted after the test.
func (s *fixture) createStream(t *testing.T, spec broker.StreamSpec) {
	t.Helper()
	must(t, s.Broker.CreateStream(t.Context(), spec))
	t.Cleanup(func() { s.deleteStream(t, spec.StreamName) })
}

// deleteStream deletes a stream that may not exist any more.
func (s *fixture) deleteStream(t *testing.T, name string) {
	t.Helper()
	err := s.Broker.DeleteStream(context.WithoutCancel(t.Context()), name)
	if err != nil && broker.KindOf(err) != broker.NotFound {
		t.Errorf("delete %s: %v", name, err)
	}
}

// publish publishes messages to the source, one after the other, with QoS 1.
func (f *flow) publish(t *testing.T, payloads ...string) {
	t.Helper()
	f.mqtt5.publish(t, f.topic, payloads...)
	f.sent += int64(len(payloads))
}

// send publishes a message to the source.
func (f *flow) send(t *testing.T, m *paho.Publish) {
	t.Helper()
	m.Topic = f.topic
	f.mqtt5.send(t, m)
	f.sent++
}

// record returns the stream's record.
func (f *flow) record(t *testing.T) broker.Stream {
	t.Helper()
	r, err := f.Broker.GetStream(t.Context(), f.name)
	must(t, err)
	if r.Stats == nil {
		t.Fatalf("the record of %s has no stats", f.name)
	}
	return r
}

// awaitProcessed waits until the stream has processed all of the flow's messages: each was
// republished or stored, as configured, or counted as lost.
func (f *flow) awaitProcessed(t *testing.T) (s broker.StreamStats) {
	t.Helper()
	defer func() {
		if t.Failed() {
			t.Logf("published %d, stats %+v", f.sent, s)
		}
	}()
	WaitFor(t, f.name+" is through with its messages", func() bool {
		r := f.record(t)
		s = *r.Stats
		lost := s.Filtered + s.Invalid + s.Dropped
		return s.Received >= f.sent &&
			(r.TargetTopic == "" || s.Republished+lost >= f.sent) && (!r.Persist || s.Persisted+lost >= f.sent)
	})
	if s.Received != f.sent {
		t.Errorf("%s received %d messages of %d", f.name, s.Received, f.sent)
	}
	return s
}

// wants checks that exactly these payloads have arrived at the target since the last check, in
// this order.
func (f *flow) wants(t *testing.T, payloads ...string) {
	t.Helper()
	f.mqtt5.wants(t, f.target, payloads...)
}

// replays checks that exactly these payloads have arrived at the replay topic.
func (f *flow) replays(t *testing.T, payloads ...string) {
	t.Helper()
	f.mqtt5.wants(t, f.replay, payloads...)
}

// wants checks that exactly these payloads have arrived at a topic since the last check, in this
// order.
func (p *mqtt5Client) wants(t *testing.T, topic string, payloads ...string) {
	t.Helper()
	got := []string{}
	for _, m := range p.collect(t, topic, len(payloads)) {
		got = append(got, string(m.Payload))
	}
	if diff := cmp.Diff(append([]string{}, payloads...), got); diff != "" {
		t.Errorf("came to %s (-want +got):\n%s", topic, diff)
	}
}

// wantsJSON is wants for JSON payloads, which are compared as values.
func (f *flow) wantsJSON(t *testing.T, payloads ...string) {
	t.Helper()
	var got []any
	for _, m := range f.mqtt5.collect(t, f.target, len(payloads)) {
		got = append(got, jsonValue(t, m.Payload))
	}
	var want []any
	for _, p := range payloads {
		want = append(want, jsonValue(t, []byte(p)))
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("came to %s (-want +got):\n%s", f.target, diff)
	}
}

// jsonValue decodes a JSON document.
func jsonValue(t *testing.T, document []byte) (v any) {
	t.Helper()
	if err := json.Unmarshal(document, &v); err != nil {
		t.Fatalf("%q is no JSON: %v", document, err)
	}
	return v
}

// count returns how many messages the stream stores.
func (f *flow) count(t *testing.T) int64 {
	t.Helper()
	c, err := f.Broker.CountStreamMessages(t.Context(), f.name)
	must(t, err)
	if c.StreamName != f.name {
		t.Errorf("the count is that of %q, want %q", c.StreamName, f.name)
	}
	return c.Count
}

// modify changes the members of the stream that spec has.
func (f *flow) modify(t *testing.T, spec broker.StreamSpec) {
	t.Helper()
	spec.StreamName = f.name
	must(t, f.Broker.ModifyStream(t.Context(), spec, false))
}

// replayToEnd starts a replay to the flow's replay topic and waits for its end.
func (f *flow) replayToEnd(t *testing.T, r broker.StreamReplay) {
	t.Helper()
	must(t, f.startReplay(t, r))
	WaitFor(t, "the replay has ended", func() bool { return !f.record(t).Replaying })
}

// startReplay starts a replay to the flow's replay topic.
func (f *flow) startReplay(t *testing.T, r broker.StreamReplay) error {
	t.Helper()
	r.StreamName = f.name
	if r.ReplayTopic == "" {
		r.ReplayTopic = f.replay
	}
	return f.Broker.ReplayStream(t.Context(), r)
}

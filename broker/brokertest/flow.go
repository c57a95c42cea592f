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

// flow is a stream under test, with a station that publishes to its source and
// receives what comes to its target and to its replay topic.
type flow struct {
	*scene
	name   string
	topic  string // where the flow publishes; the stream's source matches it
	target string
	replay string

	station *station
	sent    int64 // how many messages the stream has to have received
}

// anyLevel makes a topic of a filter that matches it.
var anyLevel = strings.NewReplacer("+", "any", "#", "any")

// flow creates a stream like spec, with a name of its own; where spec does not
// say so, also with a source and a target of its own. What is published when it
// returns reaches the stream. The stream is deleted when the test is over.
func (s *scene) flow(t *testing.T, spec broker.StreamSpec) *flow {
	t.Helper()
	name := s.name("flow")
	spec.StreamName = name
	if spec.SourceTopic == nil {
		spec.SourceTopic = new(name + "/in")
	}
	if spec.TargetTopic == nil {
		spec.TargetTopic = new(name + "/out")
	}
	f := &flow{scene: s, name: name, topic: anyLevel.Replace(*spec.SourceTopic), target: *spec.TargetTopic, replay: name + "/again"}
	f.station = s.station(t, f.replay)
	if f.target != "" {
		f.station.subscribe(t, f.target)
	}
	s.createStream(t, spec)
	return f
}

// createStream creates a stream, and deletes it when the test is over.
func (s *scene) createStream(t *testing.T, spec broker.StreamSpec) {
	t.Helper()
	must(t, s.Broker.CreateStream(t.Context(), spec))
	t.Cleanup(func() { s.deleteStream(t, spec.StreamName) })
}

// deleteStream deletes a stream that may be gone already.
func (s *scene) deleteStream(t *testing.T, name string) {
	t.Helper()
	err := s.Broker.DeleteStream(context.WithoutCancel(t.Context()), name)
	if err != nil && broker.KindOf(err) != broker.NotFound {
		t.Errorf("delete %s: %v", name, err)
	}
}

// publish sends messages to the source, one after the other, with QoS 1.
func (f *flow) publish(t *testing.T, payloads ...string) {
	t.Helper()
	f.station.publish(t, f.topic, payloads...)
	f.sent += int64(len(payloads))
}

// send sends a message to the source.
func (f *flow) send(t *testing.T, m *paho.Publish) {
	t.Helper()
	m.Topic = f.topic
	f.station.send(t, m)
	f.sent++
}

// record is the stream's record.
func (f *flow) record(t *testing.T) broker.Stream {
	t.Helper()
	r, err := f.Broker.GetStream(t.Context(), f.name)
	must(t, err)
	if r.Stats == nil {
		t.Fatalf("the record of %s has no stats", f.name)
	}
	return r
}

// settle waits until the stream is through with all that the flow published:
// each message was republished or kept, as it is to be, or counted as lost.
func (f *flow) settle(t *testing.T) (s broker.StreamStats) {
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

// wants makes sure that these payloads and no others have come to the target
// since it was looked at last, in this order.
func (f *flow) wants(t *testing.T, payloads ...string) {
	t.Helper()
	f.station.wants(t, f.target, payloads...)
}

// replays makes sure that just these payloads have come to the replay topic.
func (f *flow) replays(t *testing.T, payloads ...string) {
	t.Helper()
	f.station.wants(t, f.replay, payloads...)
}

// wants makes sure that these payloads and no others have come to a topic since
// it was looked at last, in this order.
func (p *station) wants(t *testing.T, topic string, payloads ...string) {
	t.Helper()
	got := []string{}
	for _, m := range p.collect(t, topic, len(payloads)) {
		got = append(got, string(m.Payload))
	}
	if diff := cmp.Diff(append([]string{}, payloads...), got); diff != "" {
		t.Errorf("came to %s (-want +got):\n%s", topic, diff)
	}
}

// wantsJSON is wants for payloads that mean the same, however they are spelt.
func (f *flow) wantsJSON(t *testing.T, payloads ...string) {
	t.Helper()
	var got []any
	for _, m := range f.station.collect(t, f.target, len(payloads)) {
		got = append(got, meaning(t, m.Payload))
	}
	var want []any
	for _, p := range payloads {
		want = append(want, meaning(t, []byte(p)))
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("came to %s (-want +got):\n%s", f.target, diff)
	}
}

// meaning is a JSON document as a value.
func meaning(t *testing.T, document []byte) (v any) {
	t.Helper()
	if err := json.Unmarshal(document, &v); err != nil {
		t.Fatalf("%q is no JSON: %v", document, err)
	}
	return v
}

// count is how many messages the stream keeps.
func (f *flow) count(t *testing.T) int64 {
	t.Helper()
	c, err := f.Broker.CountStreamMessages(t.Context(), f.name)
	must(t, err)
	if c.StreamName != f.name {
		t.Errorf("the count is that of %q, want %q", c.StreamName, f.name)
	}
	return c.Count
}

// modify changes what is given of the stream.
func (f *flow) modify(t *testing.T, spec broker.StreamSpec) {
	t.Helper()
	spec.StreamName = f.name
	must(t, f.Broker.ModifyStream(t.Context(), spec, false))
}

// replayed asks for a replay to the flow's replay topic and waits for its end.
func (f *flow) replayed(t *testing.T, r broker.StreamReplay) {
	t.Helper()
	must(t, f.replayBegin(t, r))
	WaitFor(t, "the replay has ended", func() bool { return !f.record(t).Replaying })
}

// replayBegin asks for a replay to the flow's replay topic.
func (f *flow) replayBegin(t *testing.T, r broker.StreamReplay) error {
	t.Helper()
	r.StreamName = f.name
	if r.ReplayTopic == "" {
		r.ReplayTopic = f.replay
	}
	return f.Broker.ReplayStream(t.Context(), r)
}

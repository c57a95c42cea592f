package brokertest

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"signalbox/broker"
)

func streamCases() []testCase {
	return slices.Concat(
		[]testCase{
			{name: "a new stream has the defaults: active, QoS of the source, nothing kept, for ever", run: streamDefaults},
			{name: "a stream with a query processes unless it says otherwise", run: streamProcessDefault},
			{name: "a record holds all that was given", run: streamRecord},
			{name: "a name that is taken stays with its stream", run: streamTaken},
			{name: "what is modified changes, the rest stays", run: streamMerge},
			{name: "what replaces a stream is all of it, the rest falls to defaults", run: streamReplace},
			{name: "a stream cannot be renamed", run: streamRename},
			{name: "a stream can be disabled and enabled", run: streamEnable},
			{name: "a stream that was deleted is gone, and its name free", run: streamDelete},
			{name: "an unknown stream is not found, whatever is asked of it", run: streamUnknown},
		},
		pagingCases("streams", func(s *fixture) lister[broker.Stream] {
			return lister[broker.Stream]{s.Broker.ListStreams, s.makeStreams, func(r broker.Stream) string { return r.StreamName }}
		}),
		[]testCase{{name: "streams: a list shows the records", run: streamVerbose}},
	)
}

func (s *fixture) makeStreams(t *testing.T, names []string) {
	for _, n := range names {
		must(t, s.Broker.CreateStream(t.Context(), broker.StreamSpec{StreamName: n, SourceTopic: new("listed/" + n)}))
	}
}

// definition ignores the members of a record that are derived. Queries are compared as values.
var definition = cmp.Options{
	cmpopts.IgnoreFields(broker.Stream{}, "Replay", "Stats"),
	cmp.Transformer("meaning", func(raw json.RawMessage) (v any) {
		if json.Unmarshal(raw, &v) != nil {
			return string(raw)
		}
		return v
	}),
}

// wantStream compares a stream's record.
func (s *fixture) wantStream(t *testing.T, want broker.Stream) {
	t.Helper()
	got, err := s.Broker.GetStream(t.Context(), want.StreamName)
	must(t, err)
	if diff := cmp.Diff(want, got, definition); diff != "" {
		t.Errorf("record (-want +got):\n%s", diff)
	}
}

// noQuery is how a record represents the absence of a query.
var noQuery = json.RawMessage(`{}`)

const countingQuery = `{"select":[{"source":"[v]","target":"[v]"},{"target":"[n]","function":{"name":"count"}}]}`

func streamDefaults(t *testing.T, s *fixture) {
	name := s.name("plain")
	s.createStream(t, broker.StreamSpec{StreamName: name, SourceTopic: new(name + "/in"), TargetTopic: new(name + "/out")})
	s.wantStream(t, broker.Stream{StreamName: name, SourceTopic: name + "/in", TargetTopic: name + "/out",
		TargetQoS: -1, Active: true, Query: noQuery})
}

func streamProcessDefault(t *testing.T, s *fixture) {
	name := s.name("asked")
	s.createStream(t, broker.StreamSpec{StreamName: name, SourceTopic: new(name), Query: json.RawMessage(countingQuery)})
	s.wantStream(t, broker.Stream{StreamName: name, SourceTopic: name, TargetQoS: -1, Active: true, Process: true,
		Query: json.RawMessage(countingQuery)})
	idle := s.name("unasked")
	s.createStream(t, broker.StreamSpec{StreamName: idle, SourceTopic: new(idle), Process: new(false), Query: json.RawMessage(countingQuery)})
	s.wantStream(t, broker.Stream{StreamName: idle, SourceTopic: idle, TargetQoS: -1, Active: true, Query: json.RawMessage(countingQuery)})
}

// fullStream returns a specification with every member, and its record.
func (s *fixture) fullStream(t *testing.T) (broker.StreamSpec, broker.Stream) {
	t.Helper()
	name := s.name("whole")
	r := broker.Stream{StreamName: name, SourceTopic: name + "/+/in", TargetTopic: name + "/out", TargetQoS: 2, TTL: 86_400,
		Key: "key “1”", TextName: "Wärme \"Süd\"", TextDescription: "Zeile 1\nline 2", Process: true, Persist: true,
		Query: json.RawMessage(countingQuery)}
	return broker.StreamSpec{StreamName: name, SourceTopic: &r.SourceTopic, TargetTopic: &r.TargetTopic, TargetQoS: &r.TargetQoS,
		TTL: &r.TTL, Key: &r.Key, TextName: &r.TextName, TextDescription: &r.TextDescription, Active: &r.Active,
		Process: &r.Process, Persist: &r.Persist, Query: r.Query}, r
}

func streamRecord(t *testing.T, s *fixture) {
	spec, want := s.fullStream(t)
	s.createStream(t, spec)
	s.wantStream(t, want)
}

func streamTaken(t *testing.T, s *fixture) {
	spec, want := s.fullStream(t)
	s.createStream(t, spec)
	wantKind(t, s.Broker.CreateStream(t.Context(), broker.StreamSpec{StreamName: want.StreamName, SourceTopic: new("other")}), broker.Exists)
	s.wantStream(t, want)
}

func streamMerge(t *testing.T, s *fixture) {
	spec, want := s.fullStream(t)
	s.createStream(t, spec)
	name := want.StreamName
	for _, step := range []struct {
		change broker.StreamSpec
		to     func(*broker.Stream)
	}{
		{broker.StreamSpec{}, func(*broker.Stream) {}},
		{broker.StreamSpec{TextName: new("other")}, func(r *broker.Stream) { r.TextName = "other" }},
		{broker.StreamSpec{TextDescription: new(""), Key: new("")}, func(r *broker.Stream) { r.TextDescription, r.Key = "", "" }},
		{broker.StreamSpec{TargetQoS: new(0), TTL: new(int64(0))}, func(r *broker.Stream) { r.TargetQoS, r.TTL = 0, 0 }},
		{broker.StreamSpec{TargetTopic: new("")}, func(r *broker.Stream) { r.TargetTopic = "" }},
		{broker.StreamSpec{SourceTopic: new(name + "/#")}, func(r *broker.Stream) { r.SourceTopic = name + "/#" }},
		{broker.StreamSpec{Process: new(false), Persist: new(false)}, func(r *broker.Stream) { r.Process, r.Persist = false, false }},
		{broker.StreamSpec{Active: new(true)}, func(r *broker.Stream) { r.Active = true }},
		{broker.StreamSpec{Query: json.RawMessage(`{"select":[]}`)}, func(r *broker.Stream) { r.Query = json.RawMessage(`{"select":[]}`) }},
	} {
		step.change.StreamName = name
		step.to(&want)
		must(t, s.Broker.ModifyStream(t.Context(), step.change, false))
		s.wantStream(t, want)
	}
}

func streamReplace(t *testing.T, s *fixture) {
	spec, want := s.fullStream(t)
	name := want.StreamName
	s.createStream(t, spec)
	must(t, s.Broker.ModifyStream(t.Context(), broker.StreamSpec{StreamName: name, SourceTopic: new("another/" + name), TTL: new(int64(60))}, true))
	s.wantStream(t, broker.Stream{StreamName: name, SourceTopic: "another/" + name, TTL: 60, TargetQoS: -1, Active: true, Query: noQuery})
	must(t, s.Broker.ModifyStream(t.Context(), spec, true))
	s.wantStream(t, want)
	wantKind(t, s.Broker.ModifyStream(t.Context(), broker.StreamSpec{StreamName: name, TTL: new(int64(60))}, true), broker.Invalid)
	s.wantStream(t, want)
}

// streamRename checks that the name selects the stream and cannot be changed: with another name
// no stream is found.
func streamRename(t *testing.T, s *fixture) {
	spec, want := s.fullStream(t)
	s.createStream(t, spec)
	spec.StreamName = s.name("renamed")
	for _, replace := range []bool{false, true} {
		wantKind(t, s.Broker.ModifyStream(t.Context(), spec, replace), broker.NotFound)
	}
	_, err := s.Broker.GetStream(t.Context(), spec.StreamName)
	wantKind(t, err, broker.NotFound)
	s.wantStream(t, want)
}

func streamEnable(t *testing.T, s *fixture) {
	f := s.flow(t, broker.StreamSpec{Persist: new(true), Query: json.RawMessage(countingQuery)})
	f.publish(t, `{"v":1}`)
	f.wantsJSON(t, `{"v":1,"n":1}`)
	f.awaitProcessed(t)
	f.modify(t, broker.StreamSpec{Active: new(false)})
	f.mqtt5.publish(t, f.topic, `{"v":"unseen"}`)
	f.mqtt5.passMark(t)
	if got := f.count(t); got != 1 {
		t.Errorf("%d messages are kept of a stream that was disabled after the first", got)
	}
	f.modify(t, broker.StreamSpec{Active: new(true)})
	f.publish(t, `{"v":2}`)
	f.wantsJSON(t, `{"v":2,"n":2}`)
	f.awaitProcessed(t)
	if got := f.count(t); got != 2 {
		t.Errorf("%d messages are kept, want the 2 that came while the stream was active", got)
	}
}

func streamDelete(t *testing.T, s *fixture) {
	spec := broker.StreamSpec{Persist: new(true)}
	f := s.flow(t, spec)
	f.publish(t, "1", "2")
	f.wants(t, "1", "2")
	f.awaitProcessed(t)
	must(t, s.Broker.DeleteStream(t.Context(), f.name))
	_, err := s.Broker.GetStream(t.Context(), f.name)
	wantKind(t, err, broker.NotFound)
	f.mqtt5.publish(t, f.topic, "3")
	f.mqtt5.passMark(t)
	spec.StreamName, spec.SourceTopic, spec.TargetTopic = f.name, &f.topic, &f.target
	s.createStream(t, spec)
	if got := f.count(t); got != 0 {
		t.Errorf("a new stream has %d messages of an old one with its name", got)
	}
	f.sent = 0
	f.publish(t, "4")
	f.wants(t, "4")
	if s := f.awaitProcessed(t); s.Received != 1 || s.Republished != 1 {
		t.Errorf("a new stream counts from its beginning: %+v", s)
	}
}

func streamUnknown(t *testing.T, s *fixture) {
	name, ctx, b := s.name("nobody"), t.Context(), s.Broker
	_, err := b.GetStream(ctx, name)
	wantKind(t, err, broker.NotFound)
	_, err = b.CountStreamMessages(ctx, name)
	wantKind(t, err, broker.NotFound)
	for _, replace := range []bool{false, true} {
		wantKind(t, b.ModifyStream(ctx, broker.StreamSpec{StreamName: name, SourceTopic: new("a")}, replace), broker.NotFound)
	}
	wantKind(t, b.DeleteStream(ctx, name), broker.NotFound)
	wantKind(t, b.ClearStreamMessages(ctx, name, nil, nil), broker.NotFound)
	wantKind(t, b.ClearStreamMessages(ctx, name, new(1.0), new(2.0)), broker.NotFound)
	wantKind(t, b.ReplayStream(ctx, broker.StreamReplay{StreamName: name, ReplayTopic: "a", Limit: -1, Speed: 1}), broker.NotFound)
	wantKind(t, b.StopStreamReplay(ctx, name), broker.NotFound)
}

func streamVerbose(t *testing.T, s *fixture) {
	spec, want := s.fullStream(t)
	s.createStream(t, spec)
	got, ok := s.findStream(t, want.StreamName)
	if !ok {
		t.Fatalf("%s is not listed", want.StreamName)
	}
	if diff := cmp.Diff(want, got, definition); diff != "" {
		t.Errorf("record in the list (-want +got):\n%s", diff)
	}
	page, err := s.Broker.ListStreams(t.Context(), broker.ListOptions[broker.Stream]{Count: -1,
		Match: broker.MatchFunc(func(r broker.Stream) bool { return strings.HasPrefix(r.TextName, "Wärme") })})
	must(t, err)
	if page.Total != 1 {
		t.Errorf("a filter by text matches %d streams, want 1", page.Total)
	}
}

func (s *fixture) findStream(t *testing.T, name string) (broker.Stream, bool) {
	t.Helper()
	return find(t, s.Broker.ListStreams, func(r broker.Stream) bool { return r.StreamName == name })
}

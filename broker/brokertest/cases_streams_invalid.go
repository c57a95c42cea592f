package brokertest

import (
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"signalbox/broker"
)

func streamInvalidCases() []testCase {
	cases := []testCase{
		{name: "every bad member is named at once, and nothing is changed", run: streamAllBad},
		{name: "limits are open to what just keeps them", run: streamLimits},
		{name: "a name that is no text is refused", run: streamNoText},
	}
	for _, bad := range badMembers() {
		cases = append(cases, testCase{name: bad.name + " is refused", run: func(t *testing.T, s *fixture) { s.refusesMember(t, bad) }})
	}
	for _, bad := range badQueries {
		cases = append(cases, testCase{name: "a query with " + bad.name + " is refused", run: func(t *testing.T, s *fixture) {
			s.refusesMember(t, badMember{path: bad.path, spec: broker.StreamSpec{Query: json.RawMessage(bad.query)}})
		}})
	}
	return append(cases, badReplayCases()...)
}

// badMember is a specification with one problem, and its path.
type badMember struct {
	name string
	path string
	spec broker.StreamSpec
}

func badMembers() []badMember {
	return []badMember{
		{"a source of no level", "sourcetopic", broker.StreamSpec{SourceTopic: new("")}},
		{"a source with a wildcard inside of a level", "sourcetopic", broker.StreamSpec{SourceTopic: new("a/b+")}},
		{"a source with # before its end", "sourcetopic", broker.StreamSpec{SourceTopic: new("a/#/b")}},
		{"a source of the system's topics", "sourcetopic", broker.StreamSpec{SourceTopic: new("$SYS/#")}},
		{"a source of a shared subscription", "sourcetopic", broker.StreamSpec{SourceTopic: new("$share/g/a")}},
		{"a source that is no text", "sourcetopic", broker.StreamSpec{SourceTopic: new("a/\x00")}},
		{"a target with +", "targettopic", broker.StreamSpec{TargetTopic: new("a/+")}},
		{"a target with #", "targettopic", broker.StreamSpec{TargetTopic: new("#")}},
		{"a target below $CONTROL", "targettopic", broker.StreamSpec{TargetTopic: new("$CONTROL/stream-processing/v1")}},
		{"a QoS below -1", "targetqos", broker.StreamSpec{TargetQoS: new(-2)}},
		{"a QoS above 2", "targetqos", broker.StreamSpec{TargetQoS: new(3)}},
		{"a negative time to live", "ttl", broker.StreamSpec{TTL: new(int64(-1))}},
	}
}

// badQueries violate one rule of queries each.
var badQueries = []struct{ name, path, query string }{
	{"an unknown function", "query.select[1].function.name",
		`{"select":[{"source":"[a]","target":"[a]"},{"source":"[a]","target":"[b]","function":{"name":"median"}}]}`},
	{"two time_buckets", "query.select[1]",
		`{"select":[{"target":"[a]","function":{"name":"time_bucket","intervalsize":1}},{"target":"[b]","function":{"name":"time_bucket","intervalsize":2}}]}`},
	{"a time_bucket of no length", "query.select[0].function.intervalsize",
		`{"select":[{"target":"[a]","function":{"name":"time_bucket","intervalsize":0}}]}`},
	{"a time_bucket without a length", "query.select[0].function.intervalsize",
		`{"select":[{"target":"[a]","function":{"name":"time_bucket"}}]}`},
	{"a source that is no path", "query.select[0].source", `{"select":[{"source":"a.b","target":"[a]"}]}`},
	{"a source that does not end", "query.select[0].source", `{"select":[{"source":"[a","target":"[a]"}]}`},
	{"a target that is no path", "query.select[0].target", `{"select":[{"source":"[a]","target":"a"}]}`},
	{"an alias that looks like a path", "query.select[0].alias", `{"select":[{"source":"[a]","alias":"[a]"}]}`},
	{"an unknown operator", "query.where[0].operator", `{"where":[{"operator":"=~","left":"[a]","right":1}]}`},
	{"an unknown alias", "query.where[0].left", `{"where":[{"operator":"==","left":"nobody","right":1}]}`},
	{"a condition on null", "query.where[0].right", `{"where":[{"operator":"==","left":"[a]","right":null}]}`},
	{"two conditions", "query.where",
		`{"where":[{"operator":"==","left":"[a]","right":1},{"operator":"==","left":"[b]","right":1}]}`},
	{"select that is no list", "query.select", `{"select":{}}`},
}

// refusesMember tries a bad member at creation, modification and replacement.
func (s *fixture) refusesMember(t *testing.T, bad badMember) {
	spec, want := s.fullStream(t)
	s.createStream(t, spec)
	change := bad.spec
	change.StreamName = want.StreamName
	s.refusesFields(t, s.Broker.ModifyStream(t.Context(), change, false), bad.path)
	if change.SourceTopic == nil {
		change.SourceTopic = &want.SourceTopic
	}
	s.refusesFields(t, s.Broker.ModifyStream(t.Context(), change, true), bad.path)
	s.wantStream(t, want)
	change.StreamName = s.name("refused")
	s.refusesFields(t, s.Broker.CreateStream(t.Context(), change), bad.path)
	_, err := s.Broker.GetStream(t.Context(), change.StreamName)
	wantKind(t, err, broker.NotFound)
}

// refusesFields checks that the arguments are refused with problems at or below these paths.
func (s *fixture) refusesFields(t *testing.T, err error, paths ...string) {
	t.Helper()
	wantKind(t, err, broker.Invalid)
	if slices.Contains(s.Lacks, NamedFields) {
		return
	}
	e, _ := errors.AsType[*broker.Error](err)
	var got []string
	for _, f := range e.Fields {
		got = append(got, f.Path)
		if f.Msg == "" {
			t.Errorf("%s is refused without a reason", f.Path)
		}
	}
	slices.Sort(got)
	slices.Sort(paths)
	if !slices.EqualFunc(got, paths, strings.HasPrefix) {
		t.Errorf("%v\nfields (-want +got):\n%s", err, cmp.Diff(paths, got))
	}
}

func streamAllBad(t *testing.T, s *fixture) {
	bad := broker.StreamSpec{SourceTopic: new("$SYS/x"), TargetTopic: new("a/#"), TargetQoS: new(7), TTL: new(int64(-5)),
		Query: json.RawMessage(`{"select":[{"source":"x","target":"[x]"}],"where":[{"operator":"~","left":"[x]","right":1}]}`)}
	paths := []string{"sourcetopic", "targettopic", "targetqos", "ttl", "query.select[0].source", "query.where[0].operator"}
	s.refusesFields(t, s.Broker.CreateStream(t.Context(), bad), append(paths, "streamname")...)
	bad.StreamName = s.name("bad")
	s.refusesFields(t, s.Broker.CreateStream(t.Context(), bad), paths...)
	_, ok := s.findStream(t, bad.StreamName)
	if ok {
		t.Error("a stream that was refused is listed")
	}
}

func streamLimits(t *testing.T, s *fixture) {
	for _, spec := range []broker.StreamSpec{
		{StreamName: strings.Repeat("n", 255), SourceTopic: new("a/+/b/#")},
		{StreamName: "Ω/+#$ “x”", SourceTopic: new("/"), TargetTopic: new("/a//")},
	} {
		s.createStream(t, spec)
		if _, err := s.Broker.GetStream(t.Context(), spec.StreamName); err != nil {
			t.Errorf("%q: %v", spec.StreamName, err)
		}
	}
	for _, bad := range []string{"", strings.Repeat("n", 256), "line\nbreak"} {
		s.refusesFields(t, s.Broker.CreateStream(t.Context(), broker.StreamSpec{StreamName: bad, SourceTopic: new("a")}), "streamname")
	}
}

func streamNoText(t *testing.T, s *fixture) {
	s.refusesFields(t, s.Broker.CreateStream(t.Context(), broker.StreamSpec{StreamName: "no\xfftext", SourceTopic: new("a")}), "streamname")
}

// badReplayCases request replays that are impossible from a stream that stores messages.
func badReplayCases() []testCase {
	var cases []testCase
	for _, bad := range []struct {
		name, path string
		r          broker.StreamReplay
	}{
		{"to no topic", "replaytopic", broker.StreamReplay{Limit: -1}},
		{"to a filter", "replaytopic", broker.StreamReplay{ReplayTopic: "a/+", Limit: -1}},
		{"to the system's topics", "replaytopic", broker.StreamReplay{ReplayTopic: "$SYS/a", Limit: -1}},
		{"that ends before it begins", "lte", broker.StreamReplay{ReplayTopic: "a", Limit: -1, GTE: new(2.0), LTE: new(1.0)}},
		{"with a negative limit other than -1", "limit", broker.StreamReplay{ReplayTopic: "a", Limit: -2}},
		{"with a negative speed", "speed", broker.StreamReplay{ReplayTopic: "a", Limit: -1, Speed: -1}},
	} {
		cases = append(cases, testCase{name: "a replay " + bad.name + " is refused", run: func(t *testing.T, s *fixture) {
			name := s.name("kept")
			s.createStream(t, broker.StreamSpec{StreamName: name, SourceTopic: &name, Persist: new(true)})
			bad.r.StreamName = name
			s.refusesFields(t, s.Broker.ReplayStream(t.Context(), bad.r), bad.path)
			if r, err := s.Broker.GetStream(t.Context(), name); err != nil || r.Replaying {
				t.Errorf("after a replay that was refused: %+v, %v", r, err)
			}
		}})
	}
	return cases
}

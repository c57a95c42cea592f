package streams

import (
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"signalbox/broker"
)

// minimalSpec returns a spec with the required members.
func minimalSpec() broker.StreamSpec {
	return broker.StreamSpec{StreamName: "s", SourceTopic: new("a/#")}
}

// fullSpec returns a spec with every member, none with its default.
func fullSpec() broker.StreamSpec {
	return broker.StreamSpec{
		StreamName: "s", SourceTopic: new("a/#"), TargetTopic: new("b"), TargetQoS: new(2), TTL: new(int64(60)),
		Key: new("k"), TextName: new("n"), TextDescription: new("d"),
		Active: new(false), Process: new(false), Persist: new(true), Query: json.RawMessage(someQuery),
	}
}

const someQuery = `{"select":[{"source":"[a]","target":"[b]"}]}`

func fullDefinition(id int64) Definition {
	return Definition{ID: id, Stream: broker.Stream{
		StreamName: "s", SourceTopic: "a/#", TargetTopic: "b", TargetQoS: 2, TTL: 60, Key: "k", TextName: "n",
		TextDescription: "d", Persist: true, Query: json.RawMessage(someQuery),
	}}
}

func TestDefine(t *testing.T) {
	t.Parallel()
	fresh := broker.Stream{StreamName: "s", SourceTopic: "a/#", TargetQoS: -1, Active: true, Query: json.RawMessage(`{}`)}
	queried := fresh
	queried.Process, queried.Query = true, json.RawMessage(someQuery)
	merged := fullDefinition(7)
	merged.Active, merged.TargetTopic = true, ""
	replaced := Definition{ID: 7, Stream: fresh}
	cleared := fullDefinition(7)
	cleared.Query = json.RawMessage(`{}`)
	processed := Definition{ID: 7, Stream: queried}
	unprocessed := processed
	unprocessed.Process = false
	record := fullDefinition(7)
	record.Replaying, record.Replay, record.Stats = true, &broker.StreamProgress{}, &broker.StreamStats{}
	with := func(s broker.StreamSpec, change func(*broker.StreamSpec)) broker.StreamSpec {
		change(&s)
		return s
	}
	for name, test := range map[string]struct {
		old     *Definition
		spec    broker.StreamSpec
		replace bool
		want    Definition
	}{
		"what is not given has its default":           {spec: minimalSpec(), want: Definition{Stream: fresh}},
		"everything that is given counts":             {spec: fullSpec(), want: fullDefinition(0)},
		"a query is processed unless that is refused": {spec: with(minimalSpec(), func(s *broker.StreamSpec) { s.Query = json.RawMessage(someQuery) }), want: Definition{Stream: queried}},
		"a query of null is none":                     {spec: with(minimalSpec(), func(s *broker.StreamSpec) { s.Query = json.RawMessage(` null `) }), want: Definition{Stream: fresh}},
		"a query is stored without white space": {
			spec: with(minimalSpec(), func(s *broker.StreamSpec) {
				s.Query = json.RawMessage(strings.ReplaceAll(someQuery, ":", " :\n\t"))
			}),
			want: Definition{Stream: queried},
		},
		"an empty query is one with white space too":          {spec: with(minimalSpec(), func(s *broker.StreamSpec) { s.Query = json.RawMessage("{ }") }), want: Definition{Stream: fresh}},
		"a merge changes what is given":                       {old: new(fullDefinition(7)), spec: broker.StreamSpec{StreamName: "s", Active: new(true), TargetTopic: new("")}, want: merged},
		"a merge of nothing changes nothing":                  {old: new(fullDefinition(7)), spec: broker.StreamSpec{StreamName: "s"}, want: fullDefinition(7)},
		"a merge never renames":                               {old: new(fullDefinition(7)), spec: broker.StreamSpec{StreamName: "other"}, want: fullDefinition(7)},
		"a merge clears a query that is null":                 {old: new(fullDefinition(7)), spec: broker.StreamSpec{Query: json.RawMessage("null")}, want: cleared},
		"a merged query leaves process":                       {old: &replaced, spec: broker.StreamSpec{Query: json.RawMessage(someQuery)}, want: unprocessed},
		"a replaced query sets process":                       {old: &replaced, spec: with(minimalSpec(), func(s *broker.StreamSpec) { s.Query = json.RawMessage(someQuery) }), replace: true, want: processed},
		"a replacement gives up what is not given":            {old: new(fullDefinition(7)), spec: minimalSpec(), replace: true, want: replaced},
		"a replacement never renames":                         {old: new(fullDefinition(7)), spec: with(minimalSpec(), func(s *broker.StreamSpec) { s.StreamName = "other" }), replace: true, want: replaced},
		"a replacement needs no name":                         {old: new(fullDefinition(7)), spec: with(fullSpec(), func(s *broker.StreamSpec) { s.StreamName = "" }), replace: true, want: fullDefinition(7)},
		"statistics of a record are not part of a definition": {old: &record, spec: broker.StreamSpec{}, want: fullDefinition(7)},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got, q, err := define(opCreate, test.old, test.spec, test.replace)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(test.want, got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
			if q == nil || q.Empty() != (string(got.Query) == `{}`) {
				t.Errorf("the query is not the one of %s", got.Query)
			}
		})
	}
}

// TestDefineRetainsNothing changes the bytes of a spec after define.
func TestDefineRetainsNothing(t *testing.T) {
	t.Parallel()
	spec := fullSpec()
	d, _, err := define(opCreate, nil, spec, false)
	if err != nil {
		t.Fatal(err)
	}
	clear(spec.Query)
	if string(d.Query) != someQuery {
		t.Errorf("the query became %q", d.Query)
	}
}

func TestDefineRefuses(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		change func(*broker.StreamSpec)
		want   string // paths of the fields
	}{
		"no name":                        {func(s *broker.StreamSpec) { s.StreamName = "" }, "streamname"},
		"a name of 256 bytes":            {func(s *broker.StreamSpec) { s.StreamName = strings.Repeat("é", 128) }, "streamname"},
		"a name with a line feed":        {func(s *broker.StreamSpec) { s.StreamName = "a\nb" }, "streamname"},
		"a name with a C1 control":       {func(s *broker.StreamSpec) { s.StreamName = "a\u0085b" }, "streamname"},
		"a name that is not UTF-8":       {func(s *broker.StreamSpec) { s.StreamName = "\xff" }, "streamname"},
		"no source":                      {func(s *broker.StreamSpec) { s.SourceTopic = nil }, "sourcetopic"},
		"an empty source":                {func(s *broker.StreamSpec) { s.SourceTopic = new("") }, "sourcetopic"},
		"a source that is not a filter":  {func(s *broker.StreamSpec) { s.SourceTopic = new("a/#/b") }, "sourcetopic"},
		"a source of the system":         {func(s *broker.StreamSpec) { s.SourceTopic = new("$SYS/#") }, "sourcetopic"},
		"a shared source":                {func(s *broker.StreamSpec) { s.SourceTopic = new("$share/g/a") }, "sourcetopic"},
		"a target with a wildcard":       {func(s *broker.StreamSpec) { s.TargetTopic = new("b/+") }, "targettopic"},
		"a target of the system":         {func(s *broker.StreamSpec) { s.TargetTopic = new("$b") }, "targettopic"},
		"a target with U+0000":           {func(s *broker.StreamSpec) { s.TargetTopic = new("b\x00") }, "targettopic"},
		"a target beyond MQTT":           {func(s *broker.StreamSpec) { s.TargetTopic = new(strings.Repeat("b", 65536)) }, "targettopic"},
		"a QoS below -1":                 {func(s *broker.StreamSpec) { s.TargetQoS = new(-2) }, "targetqos"},
		"a QoS above 2":                  {func(s *broker.StreamSpec) { s.TargetQoS = new(3) }, "targetqos"},
		"a negative time to live":        {func(s *broker.StreamSpec) { s.TTL = new(int64(-1)) }, "ttl"},
		"a time to live beyond 10 years": {func(s *broker.StreamSpec) { s.TTL = new(int64(maxTTL + 1)) }, "ttl"},
		"a long text name":               {func(s *broker.StreamSpec) { s.TextName = new(strings.Repeat("x", maxText+1)) }, "textname"},
		"a long text description":        {func(s *broker.StreamSpec) { s.TextDescription = new(strings.Repeat("x", maxText+1)) }, "textdescription"},
		"a long key":                     {func(s *broker.StreamSpec) { s.Key = new(strings.Repeat("x", maxText+1)) }, "key"},
		"a key that is not UTF-8":        {func(s *broker.StreamSpec) { s.Key = new("\xff") }, "key"},
		"a query that is not JSON":       {func(s *broker.StreamSpec) { s.Query = json.RawMessage("{") }, "query"},
		"a query that is not an object":  {func(s *broker.StreamSpec) { s.Query = json.RawMessage("[]") }, "query"},
		"a query that is not UTF-8":      {func(s *broker.StreamSpec) { s.Query = json.RawMessage("{\"x\":\"\xff\"}") }, "query"},
		"a long query":                   {func(s *broker.StreamSpec) { s.Query = json.RawMessage(strings.Repeat(" ", maxQuery-1) + "{}") }, "query"},
		"an unknown function": {func(s *broker.StreamSpec) {
			s.Query = json.RawMessage(`{"select":[{"source":"[a]","target":"[b]","function":{"name":"median"}}]}`)
		}, "query.select[0].function.name"},
		"an unknown operator": {func(s *broker.StreamSpec) {
			s.Query = json.RawMessage(`{"where":[{"operator":"~","left":"[a]","right":1}]}`)
		}, "query.where[0].operator"},
		"everything at once": {func(s *broker.StreamSpec) {
			*s = broker.StreamSpec{TargetTopic: new("#"), TargetQoS: new(9), TTL: new(int64(-1)), TextName: new("\xff"), Query: json.RawMessage("1")}
		}, "streamname sourcetopic targettopic targetqos ttl textname query"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			spec := minimalSpec()
			test.change(&spec)
			_, _, err := define(opCreate, nil, spec, false)
			if got := refusedFields(t, err, opCreate); got != test.want {
				t.Errorf("refused %q, want %q; error %v", got, test.want, err)
			}
		})
	}
}

// refusedFields returns the paths of the invalid fields of an error, and checks
// the rest of it.
func refusedFields(t *testing.T, err error, op string) string {
	t.Helper()
	e, ok := errors.AsType[*broker.Error](err)
	if !ok || e.Kind != broker.Invalid || e.Op != op {
		t.Fatalf("got error %#v, want one of kind Invalid of %q", err, op)
	}
	var paths []string
	for i, f := range e.Fields {
		paths = append(paths, f.Path)
		if f.Msg == "" || i == 0 && !strings.HasPrefix(e.Msg, f.Path+": "+f.Msg) {
			t.Errorf("message %q does not begin with field %+v", e.Msg, f)
		}
	}
	return strings.Join(slices.Compact(paths), " ")
}

// TestDefineBounds uses the largest and smallest values.
func TestDefineBounds(t *testing.T) {
	t.Parallel()
	spec := fullSpec()
	spec.StreamName = strings.Repeat("x", maxName)
	spec.SourceTopic = new("+/\u0001/#") // MQTT permits it
	spec.TargetTopic = new(strings.Repeat("b", 65535))
	spec.TTL = new(int64(maxTTL))
	spec.TextName, spec.TextDescription, spec.Key = new(strings.Repeat("x", maxText)), new(strings.Repeat("y", maxText)), new("\n")
	spec.Query = json.RawMessage(strings.Repeat(" ", maxQuery-2) + "{}")
	if _, _, err := define(opCreate, nil, spec, false); err != nil {
		t.Error(err)
	}
	for _, qos := range []int{-1, 0, 1, 2} {
		spec.TargetQoS = &qos
		if _, _, err := define(opCreate, nil, spec, false); err != nil {
			t.Error(err)
		}
	}
}

// TestDefineRefusesToModify checks that the old definition is unchanged.
func TestDefineRefusesToModify(t *testing.T) {
	t.Parallel()
	old := fullDefinition(7)
	_, _, err := define(opModify, &old, broker.StreamSpec{SourceTopic: new("$x"), TTL: new(int64(-1))}, false)
	if got, want := refusedFields(t, err, opModify), "sourcetopic ttl"; got != want {
		t.Errorf("refused %q, want %q", got, want)
	}
	if diff := cmp.Diff(fullDefinition(7), old); diff != "" {
		t.Errorf("the old definition (-want +got):\n%s", diff)
	}
	_, _, err = define(opModify, &old, broker.StreamSpec{StreamName: "s"}, true)
	if got, want := refusedFields(t, err, opModify), "sourcetopic"; got != want {
		t.Errorf("a replacement without source refused %q, want %q", got, want)
	}
}

// FuzzDefine looks for specs that cause a panic, and for definitions that
// change when they are defined again.
func FuzzDefine(f *testing.F) {
	f.Add("s", "a/#", "b", 1, int64(60), []byte(someQuery), "text")
	f.Add("", "$share/g/a", "+", 3, int64(-1), []byte("null"), "\xff")
	f.Add("s", "+/+", "", -1, int64(0), []byte(`{"where":[]}`), "")
	f.Fuzz(func(t *testing.T, name, source, target string, qos int, ttl int64, query []byte, text string) {
		spec := broker.StreamSpec{StreamName: name, SourceTopic: &source, TargetTopic: &target, TargetQoS: &qos, TTL: &ttl, Query: query, Key: &text}
		d, _, err := define(opCreate, nil, spec, false)
		if err != nil {
			if refusedFields(t, err, opCreate) == "" {
				t.Errorf("no field is named: %v", err)
			}
			return
		}
		again, _, err := define(opModify, &d, broker.StreamSpec{}, false)
		if err != nil {
			t.Fatalf("refused what it made itself: %v", err)
		}
		if diff := cmp.Diff(d, again); diff != "" {
			t.Errorf("changed without a wish (-before +after):\n%s", diff)
		}
	})
}

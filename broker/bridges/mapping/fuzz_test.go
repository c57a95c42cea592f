package mapping_test

import (
	"encoding/json"
	"errors"
	"net/url"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"

	"signalbox/broker/bridges/mapping"
)

// FuzzExpression compares paths with encoding/json, and checks that every expression that parses
// has a value or reports that a message is unfit.
func FuzzExpression(f *testing.F) {
	for _, seed := range []string{"jsonPayload.o.a[0]", `jsonPayload["\u00e9"][-1]`, "topic[1]", "userProperties.unit", "payload", "jsonPayload.a", "hostname"} {
		f.Add(seed, []byte(document))
		f.Add(seed, []byte(`[{"é":[1,"x\ud800"]}, 1e99, -0]`))
	}
	f.Fuzz(func(t *testing.T, text string, payload []byte) {
		e, err := mapping.ParseExpression(text)
		if err != nil {
			return
		}
		v, err := e.Value(example(t, string(payload)))
		if _, ok := errors.AsType[*mapping.Unfit](err); err != nil && !ok {
			t.Fatalf("got error %v, want an Unfit", err)
		}
		if out := mapping.AppendJSON(nil, v); !json.Valid(out) {
			t.Fatalf("%s is no JSON", out)
		}
	})
}

// FuzzMember checks that a member is the one that encoding/json finds.
func FuzzMember(f *testing.F) {
	f.Add("a", []byte(`{"a":1,"b":{"a":2},"a":"\u00e9"}`))
	f.Add("\"\\", []byte(`{"\"\\":[true]}`))
	f.Add("", []byte(`{"":-1.5e3}`))
	f.Fuzz(func(t *testing.T, name string, payload []byte) {
		var doc map[string]any
		if !utf8.ValidString(name) || !utf8.Valid(payload) || json.Unmarshal(payload, &doc) != nil {
			return
		}
		quoted, _ := json.Marshal(name)
		e, err := mapping.ParseExpression("jsonPayload[" + string(quoted) + "]")
		if err != nil {
			return // too long
		}
		v, err := e.Value(bare(string(payload)))
		if err != nil {
			t.Fatal(err)
		}
		var got any
		if err := json.Unmarshal(mapping.AppendJSON(nil, v), &got); err != nil {
			t.Fatalf("%v: %v", v, err)
		}
		if !cmp.Equal(got, doc[name]) {
			t.Fatalf("got %#v, want %#v", got, doc[name])
		}
	})
}

// FuzzTemplate checks that no message can change the text around a placeholder.
func FuzzTemplate(f *testing.F) {
	for _, seed := range []string{`{"a":${payload},"b":"${topic}"}`, `{"a":${payload|raw}}`, "/v1/${topic}/${payload}?a=${jsonPayload.n}", "$${", `"\"${payload}"`, "${payload|path}"} {
		f.Add(seed, []byte(document))
		f.Add(seed, []byte("\"\xff\\..\r\n"))
	}
	f.Fuzz(func(t *testing.T, text string, payload []byte) {
		m := example(t, string(payload))
		if tpl, err := mapping.ParseTemplate(text, mapping.EscapeJSON); err == nil {
			if out, err := tpl.Append(nil, m); err == nil && !json.Valid(out) {
				t.Fatalf("%q is no JSON", out)
			}
		}
		if _, err := mapping.ParseTemplate(text, mapping.EscapeNone); err != nil {
			return
		}
		tpl, err := mapping.ParseTemplate("/p/${payload}?a=${payload}", mapping.EscapePath)
		if err != nil {
			t.Fatal(err)
		}
		out, err := tpl.Append(nil, m)
		if err != nil {
			t.Fatal(err)
		}
		u, err := url.Parse(string(out))
		if err != nil || u.Path != "/p/"+string(payload) || u.Query().Get("a") != string(payload) || strings.Count(string(out), "/") != 2 {
			t.Fatalf("%q leads to %v, %v", out, u, err)
		}
	})
}

// FuzzRecord checks that mappings that compile make valid JSON.
func FuzzRecord(f *testing.F) {
	f.Add([]byte(`{"mapping":[{"source":"jsonPayload.n","target":"a","type":"time","default":5},{"value":[1,"\u0000"],"target":"\""}]}`), []byte(document))
	f.Add([]byte(`{"mapping":[{"source":"payload","target":"a","type":"json"},{"source":"payload","target":"b","type":"integer"}]}`), []byte(` 12 `))
	f.Add([]byte(`{"mapping":[{"source":"payload","target":"a","type":"boolean","required":true},{"value":null,"type":"json","target":"b"}]}`), []byte(`TRUE`))
	f.Fuzz(func(t *testing.T, text, payload []byte) {
		var s mapping.Spec
		if json.Unmarshal(text, &s) != nil {
			return
		}
		m, problems := mapping.Compile(s)
		if (m == nil) != (len(problems) > 0) {
			t.Fatalf("got %v and %v", m, problems)
		}
		if m == nil {
			return
		}
		r, err := m.Record(example(t, string(payload)))
		if err != nil {
			if _, ok := errors.AsType[*mapping.Unfit](err); !ok {
				t.Fatalf("got error %v, want an Unfit", err)
			}
			return
		}
		if out := r.AppendJSON(nil); !json.Valid(out) {
			t.Fatalf("%s is no JSON", out)
		}
	})
}

// FuzzPaths checks that fields find the same values together as each alone.
func FuzzPaths(f *testing.F) {
	f.Add("jsonPayload.a", "jsonPayload.a.b", "jsonPayload.a[0]", []byte(`{"a":{"b":1},"a":[{"b":2}]}`))
	f.Add("jsonPayload.o", `jsonPayload.o["a b"][-1].c`, `jsonPayload.o["a b"][0]`, []byte(document))
	f.Add("jsonPayload", "jsonPayload[0]", "jsonPayload[-1][0]", []byte(`[1,[null,2]]`))
	f.Fuzz(func(t *testing.T, a, b, c string, payload []byte) {
		m := example(t, string(payload))
		var s mapping.Spec
		var want mapping.Record
		var unfit error
		for i, source := range []string{a, b, c, a} {
			e, err := mapping.ParseExpression(source)
			if err != nil {
				return
			}
			target := string(rune('a' + i))
			v, err := e.Value(m)
			if err != nil {
				unfit = err
			}
			s.Mapping = append(s.Mapping, mapping.FieldSpec{Source: source, Target: target})
			want = append(want, mapping.Field{Target: target, Value: v})
		}
		compiled, problems := mapping.Compile(s)
		if len(problems) > 0 {
			t.Fatal(problems)
		}
		got, err := compiled.Record(m)
		if (err != nil) != (unfit != nil) || err == nil && !cmp.Equal(got, want) {
			t.Fatalf("got %v, %v, want %v, %v", got, err, want, unfit)
		}
	})
}

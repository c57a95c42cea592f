package query_test

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"errors"
	"hash/crc32"
	"testing"

	"github.com/google/go-cmp/cmp"

	"signalbox/broker/streams/query"
)

// example is the query of the documentation, with every feature.
const example = `{"select":[{"source":"[Machine Data][Speed]","target":"[Data][SpeedMax]","alias":"speedmax","function":{"name":"max"}},
	{"source":"","target":"[bucket]","function":{"name":"time_bucket","intervalsize":60,"intervaloffset":15}},
	{"source":"[Machine Data][Speed]","target":"[Data][Sum]","function":{"name":"sum"}},{"target":"[n]","function":{"name":"count"}},
	{"source":"[Location]","target":"[Location]","alias":"loc"}],
	"where":[{"operator":"==","left":"loc","right":"Hall 3"}]}`

// FuzzCompile checks that a query that compiles writes valid JSON, and that one
// that does not has problems.
func FuzzCompile(f *testing.F) {
	for _, seed := range []string{example, ``, `null`, `{"where":[{"left":"[a]]][0]","operator":">=","right":-1.5e3}]}`,
		`{"select":[{"source":"[a","alias":"[","function":{"name":"avg"}}]}`, `{"select":[{"source":"","target":"[\u0000\ud800]"}]}`,
		bucket(`,"intervalsize":0.001,"intervaloffset":-1e12`), where(`"a"`, `==`, `true`)} {
		f.Add([]byte(seed), []byte(`{"Machine Data":{"Speed":1},"Location":"Hall 3","a":[1,{"b":true}]}`), int64(1))
	}
	f.Fuzz(func(t *testing.T, text, payload []byte, at int64) {
		q, err := query.Compile(text)
		if err != nil {
			if p, ok := errors.AsType[query.Problems](err); !ok || len(p) == 0 || err.Error() == "" {
				t.Fatalf("got %#v, want problems", err)
			}
			return
		}
		s := q.NewState()
		for range 2 {
			out, v, _ := q.Run(nil, payload, at, s)
			if v == query.Match && !q.Empty() && !json.Valid(out) {
				t.Fatalf("%s is not JSON", out)
			}
			if v != query.Match && out != nil {
				t.Fatalf("verdict %d with output %s", v, out)
			}
			s = restored(t, q, s)
		}
	})
}

// FuzzRun compares the scanner with encoding/json: which documents are valid,
// and which values a path finds.
func FuzzRun(f *testing.F) {
	for _, seed := range []string{`{"a":{"b":1},"a":[2,{"b":3}],"0":"\u0061"}`, `[1,[],{"b":null}]`, ` -0.5e+10 `, `"\ud83d\ude00\ud83d\n"`, `{"\u0061":tru}`,
		`{"a":1,}`, "[\"\x01\"]", "\"\xff\"", `{"":{"":[[[[]]]]}}`, `nul`, `01`, `1.`, `-`, `[1 2]`, `{"a" 1}`, ``, `"\u00g0"`, `{"a":{"b":{},"b":false}}`} {
		f.Add([]byte(seed))
	}
	paths := []string{"", "[a]", "[a][b]", "[a][1]", "[a][1][b]", "[0]", "[2][b]", "[b]"}
	f.Fuzz(func(t *testing.T, payload []byte) {
		document, ok := decode(string(payload))
		valid := ok && nesting(payload) <= 128
		for _, p := range paths {
			q, err := query.Compile([]byte(`{"select":[{"source":"` + p + `","target":"[x]"}]}`))
			if err != nil {
				t.Fatal(err)
			}
			want, found := find(document, p)
			out, v, _ := q.Run(nil, payload, 0, nil)
			if (v == query.Match) != (valid && found) {
				t.Fatalf("%s: verdict %d, valid %v, found %v", p, v, valid, found)
			}
			if diff := cmp.Diff(map[string]any{"x": want}, tree(out)); v == query.Match && diff != "" {
				t.Fatalf("%s (-want +got):\n%s", p, diff)
			}
		}
	})
}

// nesting returns the depth of arrays and objects in a document.
func nesting(document []byte) (deepest int) {
	d, depth := json.NewDecoder(bytes.NewReader(document)), 0
	for {
		token, err := d.Token()
		if err != nil {
			return deepest
		}
		switch token {
		case json.Delim('{'), json.Delim('['):
			depth++
		case json.Delim('}'), json.Delim(']'):
			depth--
		}
		deepest = max(deepest, depth)
	}
}

// FuzzRestore reads states with a valid checksum and fingerprint and random
// content, and runs a query on those that are accepted.
func FuzzRestore(f *testing.F) {
	q := compile(f, example)
	payload := []byte(`{"Machine Data":{"Speed":1.5},"Location":"Hall 3"}`)
	s := q.NewState()
	f.Add(s.Append(nil)[9:])
	for _, speed := range []string{`{"Machine Data":{"Speed":3},"Location":"Hall 3"}`, string(payload)} {
		if _, v, _ := q.Run(nil, []byte(speed), 0, s); v != query.Match {
			f.Fatal("no match")
		}
		f.Add(s.Append(nil)[9:])
	}
	head := s.Append(nil)[:9]
	f.Fuzz(func(t *testing.T, body []byte) {
		q.Restore(body)
		s, ok := q.Restore(withChecksum(append(bytes.Clone(head), body[:max(0, len(body)-4)]...)))
		if !ok {
			if string(s.Append(nil)) != string(q.NewState().Append(nil)) {
				t.Fatal("a state that is not restored is not new")
			}
			return
		}
		if out, v, _ := q.Run(nil, payload, 1, s); v == query.Match && !json.Valid(out) {
			t.Fatalf("%x put out %s", body, out)
		}
	})
}

// withChecksum appends the checksum.
func withChecksum(state []byte) []byte {
	return binary.LittleEndian.AppendUint32(state, crc32.Checksum(state, crc32.MakeTable(crc32.Castagnoli)))
}

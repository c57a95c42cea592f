package query_test

import (
	"fmt"
	"strings"
	"testing"

	"signalbox/broker/streams/query"
)

// typical has two selects, one of them an aggregate, and a condition.
const typical = `{"select":[{"source":"[Machine Data][Speed]","target":"[Data][SpeedMax]","function":{"name":"max"}},
	{"source":"[Location]","target":"[Location]","alias":"loc"}],"where":[{"operator":"==","left":"loc","right":"Hall 3"}]}`

// reading is a payload of 150 bytes.
const reading = `{"Location":"Hall 3","Time":"2026-01-02T03:04:05.678Z","Machine Data":{"Name":"Press \u0034","Speed":1234.56,"Load":[0.25,0.5],"On":true},"Seq":90071}`

func TestReadingIsOf150Bytes(t *testing.T) {
	t.Parallel()
	if len(reading) != 150 {
		t.Errorf("%d bytes", len(reading))
	}
}

// queries are those that are measured.
var queries = map[string]string{
	"typical": typical,
	"example": replaced(example, `60`, `1`), // a bucket per message: AllocsPerRun cannot see less than one allocation
	"where":   `{"where":[{"operator":">","left":"[Machine Data][Speed]","right":1000}]}`,
	"escaped": `{"where":[{"operator":"==","left":"[Machine Data][Name]","right":"Press 4"}]}`,
	"having":  `{"select":[{"source":"[Seq]","alias":"s","function":{"name":"sum"}}],"where":[{"left":"s","operator":">","right":0}]}`,
	"wide":    wide(256),
}

// wide has n selects, so many that members are looked up in a map.
func wide(n int) string {
	var selects []string
	for i := range n {
		selects = append(selects, fmt.Sprintf(`{"source":"[m%d]","target":"[m%d]"}`, i, i))
	}
	return `{"select":[` + strings.Join(selects, ",") + `]}`
}

// payload returns a document with all members of a query.
func payload(name string) []byte {
	if name != "wide" {
		return []byte(reading)
	}
	var members []string
	for i := range 256 {
		members = append(members, fmt.Sprintf(`"\u006d%d":%d`, i, i))
	}
	return []byte("{" + strings.Join(members, ",") + "}")
}

func TestRunDoesNotAllocate(t *testing.T) { // AllocsPerRun cannot run in parallel
	for name, text := range queries {
		q := compile(t, text)
		s, dst := q.NewState(), make([]byte, 0, 64)
		if n := allocations(t, q, name, s); n != 0 {
			t.Errorf("%s: %v allocations", name, n)
		}
		if n := allocations(t, q, name, nil); n != 0 && !q.Stateful() {
			t.Errorf("%s: %v allocations without a state", name, n)
		}
		if n := testing.AllocsPerRun(1000, func() { s.Append(dst) }); n != 0 {
			t.Errorf("%s: %v allocations of Append", name, n)
		}
	}
}

// allocations returns the number per message; each message is one second after
// the one before.
func allocations(t *testing.T, q *query.Query, name string, s *query.State) float64 {
	t.Helper()
	payload, dst, at := payload(name), make([]byte, 0, 8192), int64(0)
	return testing.AllocsPerRun(1000, func() {
		at += 1000
		if _, v, _ := q.Run(dst, payload, at, s); v != query.Match {
			t.Fatalf("%s: verdict %d", name, v)
		}
	})
}

func BenchmarkRun(b *testing.B) {
	for name, text := range queries {
		b.Run(name, func(b *testing.B) {
			q, payload := compile(b, text), payload(name)
			s, dst := q.NewState(), []byte(nil)
			b.SetBytes(int64(len(payload)))
			b.ReportAllocs()
			for b.Loop() {
				dst, _, _ = q.Run(dst[:0], payload, 0, s)
			}
		})
	}
}

func BenchmarkAppend(b *testing.B) {
	q := compile(b, example)
	s, dst := q.NewState(), []byte(nil)
	q.Run(nil, []byte(reading), 0, s)
	for b.Loop() {
		dst = s.Append(dst[:0])
	}
}

func BenchmarkCompile(b *testing.B) {
	for b.Loop() {
		compile(b, example)
	}
}

// replaced replaces text that must occur.
func replaced(text, before, after string) string {
	if !strings.Contains(text, before) {
		panic(before + " is not in " + text)
	}
	return strings.ReplaceAll(text, before, after)
}

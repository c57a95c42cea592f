package brokertest

import (
	"encoding/json"
	"fmt"
	"math"
	"slices"
	"testing"
	"time"

	"signalbox/broker"
)

func streamQueryCases() []testCase {
	var cases []testCase
	for _, r := range slices.Concat(selectRules, functionRules, whereRules()) {
		cases = append(cases, testCase{name: r.name, run: func(t *testing.T, s *fixture) { r.play(t, s) }})
	}
	return append(cases,
		testCase{name: "time_bucket gives the beginning of the bucket, with its offset", run: queryBucket},
		testCase{name: "aggregates start anew in a new bucket", run: queryBuckets},
		testCase{name: "what is kept is the message after the query", run: queryKept},
		testCase{name: "a change of texts and targets leaves running values alone", run: queryStateStays},
		testCase{name: "another query starts running values anew", run: queryStateAnew},
		testCase{name: "two streams with the same query count for themselves", run: queryStateOwn},
	)
}

// queryRule is the result of a query for some messages. If out is shorter than in, the others are
// counted as filtered or invalid.
type queryRule struct {
	name     string
	query    string
	in       []string
	out      []string
	filtered int64
	invalid  int64
}

func (r queryRule) play(t *testing.T, s *fixture) {
	f := s.flow(t, broker.StreamSpec{TargetQoS: new(1), Query: json.RawMessage(r.query)})
	f.publish(t, r.in...)
	stats := f.awaitProcessed(t)
	f.wantsJSON(t, r.out...)
	want := broker.StreamStats{Received: int64(len(r.in)), Republished: int64(len(r.out)), Filtered: r.filtered, Invalid: r.invalid}
	if stats != want {
		t.Errorf("stats: got %+v, want %+v", stats, want)
	}
}

var selectRules = []queryRule{
	{name: "select puts a member where it is wanted, and leaves the others out",
		query: `{"select":[{"source":"[a]","target":"[b]"}]}`,
		in:    []string{`{"a":1,"c":2}`, `{"a":"x"}`, `{"a":[1,{"y":null}]}`, `{"a":null}`, `{"a":{"a":true}}`},
		out:   []string{`{"b":1}`, `{"b":"x"}`, `{"b":[1,{"y":null}]}`, `{"b":null}`, `{"b":{"a":true}}`}},
	{name: "select reads nested members, whose names may hold anything",
		query: `{"select":[{"source":"[Machine Data][Speed (m/s)]","target":"[v]"}]}`,
		in:    []string{`{"Machine Data":{"Speed (m/s)":12.5,"x":0},"Speed (m/s)":1}`, `{"Machine\u0020Data":{"Speed (m\/s)":3}}`},
		out:   []string{`{"v":12.5}`, `{"v":3}`}},
	{name: "select writes nested members into one object",
		query: `{"select":[{"source":"[a]","target":"[Data][A]"},{"source":"[b]","target":"[Data][More][B]"},{"source":"[a]","target":"[A]"}]}`,
		in:    []string{`{"a":1,"b":"x"}`},
		out:   []string{`{"Data":{"A":1,"More":{"B":"x"}},"A":1}`}},
	{name: "a select without a target is not put out, but can be asked by its alias",
		query: `{"select":[{"source":"[a]","alias":"hidden"},{"source":"[b]","target":"[b]"}],"where":[{"operator":">","left":"hidden","right":1}]}`,
		in:    []string{`{"a":1,"b":1}`, `{"a":2,"b":2}`}, out: []string{`{"b":2}`}, filtered: 1},
	{name: "the names of a query's members may be spelt in any case",
		query: `{"SELECT":[{"Source":"[a]","Target":"[b]"}]}`, in: []string{`{"a":1}`}, out: []string{`{"b":1}`}},
	{name: "a message that lacks what is selected is invalid",
		query: `{"select":[{"source":"[a]","target":"[a]"},{"source":"[b][c]","target":"[c]"}]}`,
		in:    []string{`{"a":1,"b":{"c":2}}`, `{"a":1}`, `{"a":1,"b":3}`, `{"b":{"c":2}}`, `{}`},
		out:   []string{`{"a":1,"c":2}`}, invalid: 4},
	{name: "what is no JSON is invalid",
		query: `{"select":[{"source":"[a]","target":"[a]"}]}`,
		in:    []string{`{"a":1}`, ``, `text`, `{"a":1`, `{"a":1}}`, `{'a':1}`, "\xff\xfe", `[1]`, `1`, `{"a":2}`},
		out:   []string{`{"a":1}`, `{"a":2}`}, invalid: 8},
}

var functionRules = []queryRule{
	{name: "min is the smallest so far", query: aggregate("min"),
		in: []string{`{"v":3}`, `{"v":-1.5}`, `{"v":2}`}, out: []string{`{"r":3}`, `{"r":-1.5}`, `{"r":-1.5}`}},
	{name: "max is the largest so far", query: aggregate("max"),
		in: []string{`{"v":-3}`, `{"v":1e3}`, `{"v":2}`}, out: []string{`{"r":-3}`, `{"r":1000}`, `{"r":1000}`}},
	{name: "sum is the sum so far", query: aggregate("sum"),
		in: []string{`{"v":3}`, `{"v":-5}`, `{"v":0.5}`}, out: []string{`{"r":3}`, `{"r":-2}`, `{"r":-1.5}`}},
	{name: "count is the number of messages so far, and needs no source",
		query: `{"select":[{"target":"[n]","function":{"name":"count"}}]}`,
		in:    []string{`{}`, `{"v":1}`, `{}`}, out: []string{`{"n":1}`, `{"n":2}`, `{"n":3}`}},
	{name: "all functions and plain members go together, one message out for each in",
		query: `{"select":[{"source":"[v]","target":"[min]","function":{"name":"min"}},{"source":"[v]","target":"[max]","function":{"name":"max"}},
			{"source":"[v]","target":"[sum]","function":{"name":"sum"}},{"source":"","target":"[n]","function":{"name":"count"}},{"source":"[v]","target":"[v]"}]}`,
		in:  []string{`{"v":2}`, `{"v":5}`, `{"v":1}`},
		out: []string{`{"min":2,"max":2,"sum":2,"n":1,"v":2}`, `{"min":2,"max":5,"sum":7,"n":2,"v":5}`, `{"min":1,"max":5,"sum":8,"n":3,"v":1}`}},
	{name: "what is no number is invalid for an aggregate and leaves it as it was", query: aggregate("sum"),
		in: []string{`{"v":1}`, `{"v":"7"}`, `{"v":true}`, `{"v":null}`, `{}`, `no JSON`, `{"v":2}`}, out: []string{`{"r":1}`, `{"r":3}`}, invalid: 5},
	{name: "what a condition keeps out does not count",
		query: `{"select":[{"target":"[n]","function":{"name":"count"}}],"where":[{"operator":"==","left":"[ok]","right":true}]}`,
		in:    []string{`{"ok":true}`, `{"ok":false}`, `{"ok":true}`}, out: []string{`{"n":1}`, `{"n":2}`}, filtered: 1},
	{name: "a condition can ask an aggregate by its alias",
		query: `{"select":[{"source":"[v]","target":"[sum]","alias":"total","function":{"name":"sum"}}],"where":[{"operator":">","left":"total","right":3}]}`,
		in:    []string{`{"v":2}`, `{"v":2}`, `{"v":-1}`, `{"v":1}`}, out: []string{`{"sum":4}`, `{"sum":4}`}, filtered: 2},
}

func aggregate(function string) string {
	return fmt.Sprintf(`{"select":[{"source":"[v]","target":"[r]","function":{"name":%q}}]}`, function)
}

// whereRules are the rules of conditions: each operator with each type that it can compare, by
// path and by alias.
func whereRules() []queryRule {
	numbers := []string{`{"v":-1}`, `{"v":5}`, `{"v":5.0}`, `{"v":7}`}
	texts := []string{`{"v":"Hall 10"}`, `{"v":"Hall 3"}`, `{"v":"Hall\u00203"}`, `{"v":"hall 3"}`}
	flags := []string{`{"v":true}`, `{"v":false}`}
	others := []string{`{"v":"5"}`, `{"v":null}`, `{"v":[5]}`, `{"v":{"v":5}}`}
	var rules []queryRule
	for _, c := range []struct {
		operator, right string
		in              []string
		pass            []int
	}{
		{"==", `5`, numbers, []int{1, 2}}, {"!=", `5`, numbers, []int{0, 3}}, {">", `5`, numbers, []int{3}},
		{"<", `5`, numbers, []int{0}}, {">=", `5`, numbers, []int{1, 2, 3}}, {"<=", `5`, numbers, []int{0, 1, 2}},
		{"==", `"Hall 3"`, texts, []int{1, 2}}, {"!=", `"Hall 3"`, texts, []int{0, 3}}, {">", `"Hall 3"`, texts, []int{3}},
		{"<", `"Hall 3"`, texts, []int{0}}, {">=", `"Hall 3"`, texts, []int{1, 2, 3}}, {"<=", `"Hall 3"`, texts, []int{0, 1, 2}},
		{"==", `true`, flags, []int{0}}, {"!=", `true`, flags, []int{1}}, {"==", `false`, flags, []int{1}},
		{"==", `5`, others, nil}, {"!=", `5`, others, []int{0, 1, 2, 3}}, {">=", `5`, others, nil}, {"<=", `5`, others, nil},
	} {
		r := queryRule{name: fmt.Sprintf("where a member of %s and the like %s %s", c.in[0], c.operator, c.right), in: c.in}
		for _, i := range c.pass {
			r.out = append(r.out, c.in[i])
		}
		r.filtered = int64(len(c.in) - len(c.pass))
		r.query = fmt.Sprintf(`{"where":[{"operator":%q,"left":"[v]","right":%s}]}`, c.operator, c.right)
		byAlias := r
		byAlias.name += ", by its alias"
		byAlias.query = fmt.Sprintf(`{"select":[{"source":"[v]","target":"[v]","alias":"it"}],"where":[{"operator":%q,"left":"it","right":%s}]}`, c.operator, c.right)
		rules = append(rules, r, byAlias)
	}
	return append(rules,
		queryRule{name: "a message that lacks what a condition asks for is filtered, and what is no JSON invalid",
			query: `{"where":[{"operator":"!=","left":"[a][b]","right":1}]}`,
			in:    []string{`{"a":{"b":2},"c":3}`, `{"a":{}}`, `{"a":1}`, `{}`, `no JSON`}, out: []string{`{"a":{"b":2},"c":3}`}, filtered: 3, invalid: 1})
}

func queryBucket(t *testing.T, s *fixture) {
	for _, offset := range []float64{0, 15, -20} {
		f := s.flow(t, broker.StreamSpec{Query: json.RawMessage(fmt.Sprintf(
			`{"select":[{"target":"[at][bucket]","function":{"name":"time_bucket","intervalsize":60,"intervaloffset":%v}}]}`, offset))})
		before := seconds(time.Now())
		f.publish(t, `{}`)
		came := f.mqtt5.collect(t, f.target, 1)
		after := seconds(time.Now())
		var out struct{ At struct{ Bucket float64 } }
		must(t, json.Unmarshal(came[0].Payload, &out))
		begin := out.At.Bucket
		if math.Mod(begin-offset, 60) != 0 || begin > after || begin+60 <= before {
			t.Errorf("offset %v: a message of %.3f to %.3f came as %s", offset, before, after, came[0].Payload)
		}
	}
}

func seconds(at time.Time) float64 { return float64(at.UnixMilli()) / 1000 }

// queryBuckets publishes until two buckets of a second have ended, and uses only the data in the
// messages.
func queryBuckets(t *testing.T, s *fixture) {
	f := s.flow(t, broker.StreamSpec{TargetQoS: new(1), Query: json.RawMessage(`{"select":[{"target":"[bucket]","function":{"name":"time_bucket","intervalsize":1}},
		{"target":"[n]","function":{"name":"count"}},{"source":"[v]","target":"[max]","function":{"name":"max"}}]}`)})
	type result struct{ Bucket, N, Max float64 }
	var last result
	fresh := 0
	for v := 0; fresh < 2; v++ {
		WaitFor(t, "a moment has passed", afterPause())
		f.publish(t, fmt.Sprintf(`{"v":%d}`, -v))
		var got result
		must(t, json.Unmarshal(f.mqtt5.collect(t, f.target, 1)[0].Payload, &got))
		want := result{Bucket: got.Bucket, N: last.N + 1, Max: last.Max}
		if got.Bucket != last.Bucket {
			want.N, want.Max = 1, float64(-v)
		}
		if got != want || got.Bucket < last.Bucket {
			t.Fatalf("after %+v came %+v, want %+v", last, got, want)
		}
		if v > 0 && got.Bucket != last.Bucket {
			fresh++
		}
		last = got
	}
}

func queryKept(t *testing.T, s *fixture) {
	f := s.flow(t, broker.StreamSpec{Persist: new(true), TargetTopic: new(""), Query: json.RawMessage(
		`{"select":[{"source":"[v]","target":"[r]"},{"target":"[n]","function":{"name":"count"}}],"where":[{"operator":">","left":"[v]","right":0}]}`)})
	f.publish(t, `{"v":1}`, `{"v":-1}`, `{"v":2}`, `nothing`)
	if s := f.awaitProcessed(t); s.Persisted != 2 || s.Messages != 2 || s.Republished != 0 || f.count(t) != 2 {
		t.Errorf("want 2 messages kept, none republished: %+v", s)
	}
	f.replayToEnd(t, broker.StreamReplay{Limit: -1})
	f.target = f.replay
	f.wantsJSON(t, `{"r":1,"n":1}`, `{"r":2,"n":2}`)
}

func queryStateStays(t *testing.T, s *fixture) {
	f := s.flow(t, broker.StreamSpec{Query: json.RawMessage(countingQuery)})
	f.publish(t, `{"v":1}`, `{"v":2}`)
	f.wantsJSON(t, `{"v":1,"n":1}`, `{"v":2,"n":2}`)
	f.modify(t, broker.StreamSpec{TextName: new("other"), TextDescription: new("text"), Key: new("key"), TargetQoS: new(1)})
	f.publish(t, `{"v":3}`)
	f.wantsJSON(t, `{"v":3,"n":3}`)
	f.modify(t, broker.StreamSpec{Persist: new(true), Query: json.RawMessage(countingQuery)})
	f.publish(t, `{"v":4}`)
	f.wantsJSON(t, `{"v":4,"n":4}`)
}

func queryStateAnew(t *testing.T, s *fixture) {
	f := s.flow(t, broker.StreamSpec{Query: json.RawMessage(aggregate("sum"))})
	f.publish(t, `{"v":1}`, `{"v":2}`)
	f.wantsJSON(t, `{"r":1}`, `{"r":3}`)
	f.modify(t, broker.StreamSpec{Query: json.RawMessage(aggregate("max"))})
	f.publish(t, `{"v":-7}`)
	f.wantsJSON(t, `{"r":-7}`)
	f.modify(t, broker.StreamSpec{Query: json.RawMessage(aggregate("sum"))})
	f.publish(t, `{"v":5}`)
	f.wantsJSON(t, `{"r":5}`)
}

func queryStateOwn(t *testing.T, s *fixture) {
	first := s.flow(t, broker.StreamSpec{Query: json.RawMessage(countingQuery)})
	first.publish(t, `{"v":1}`)
	first.wantsJSON(t, `{"v":1,"n":1}`)
	second := s.flow(t, broker.StreamSpec{SourceTopic: &first.topic, Query: json.RawMessage(countingQuery)})
	first.publish(t, `{"v":2}`)
	first.wantsJSON(t, `{"v":2,"n":2}`)
	second.wantsJSON(t, `{"v":2,"n":1}`)
}

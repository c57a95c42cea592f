package query_test

import (
	"math"
	"strings"
	"testing"

	"signalbox/broker/streams/query"
)

// message is a payload, the time when it arrives (in seconds), and the expected
// result: its output, "filtered" or "invalid".
type message struct {
	at      float64
	payload string
	want    string
}

// TestRun checks the rules of queries, each with a sequence of messages.
func TestRun(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name, query string
		messages    []message
	}{
		{"nothing lets all pass as it is", ``, []message{{0, `no { JSON`, `no { JSON`}, {0, ``, ``}}},
		{"null is nothing", ` null `, []message{{0, `x`, `x`}}},
		{"an empty object is nothing", `{}`, []message{{0, `x`, `x`}}},
		{"empty and null members are nothing", `{"select":[],"where":null,"more":1}`, []message{{0, `x`, `x`}}},
		{"names of members are read regardless of case", `{"SELECT":[{"Source":"[a]","TARGET":"[b]"}]}`,
			[]message{{0, `{"a":1}`, `{"b":1}`}}},

		{"values are copied as they are written", `{"select":[{"source":"[a]","target":"[x]"}]}`, []message{
			{0, `{"a":1.50E+01}`, `{"x":1.50E+01}`},
			{0, `{"a":123456789012345678901234567890}`, `{"x":123456789012345678901234567890}`},
			{0, ` { "a" : { "b" : [ 1 , 2 ] } } `, `{"x":{ "b" : [ 1 , 2 ] }}`},
			{0, `{"a":"\u00fc\n"}`, `{"x":"\u00fc\n"}`},
			{0, `{"a":null}`, `{"x":null}`},
		}},
		{"targets are merged in the order of the selects",
			`{"select":[{"source":"[a]","target":"[x][y]"},{"source":"[b]","target":"[z]"},{"source":"[a]","target":"[x][w][0]"}]}`,
			[]message{{0, `{"a":1,"b":2}`, `{"x":{"y":1,"w":{"0":1}},"z":2}`}}},
		{"names of targets are escaped", `{"select":[{"source":"[a]","target":"[\"\\\u0001ü]"}]}`,
			[]message{{0, `{"a":1}`, `{"\"\\\u0001ü":1}`}}},
		{"a path finds inside", `{"select":[{"source":"[Machine Data][Speed]","target":"[s]"}]}`, []message{
			{0, `{"Speed":1,"Machine Data":{"x":{"Speed":2},"Speed":3}}`, `{"s":3}`},
			{0, `{"Machine Data":[3]}`, "invalid"},
			{0, `{"Machine Data":3}`, "invalid"},
			{0, `{"machine data":{"speed":3}}`, "invalid"},
		}},
		{"a number addresses elements and members", `{"select":[{"source":"[a][1]","target":"[x]"}]}`, []message{
			{0, `{"a":[5,6,7]}`, `{"x":6}`}, {0, `{"a":{"1":8}}`, `{"x":8}`}, {0, `{"a":[5]}`, "invalid"}, {0, `{"a":[]}`, "invalid"},
		}},
		{"a number written otherwise is only a name", `{"select":[{"source":"[01]","target":"[x]"}]}`,
			[]message{{0, `[5,6]`, "invalid"}, {0, `{"01":6}`, `{"x":6}`}}},
		{"a doubled bracket is one in a name", `{"select":[{"source":"[a]]][[b]","target":"[]]]"}]}`,
			[]message{{0, `{"a]":{"[b":1}}`, `{"]":1}`}}},
		{"the empty source is the whole document", `{"select":[{"source":"","target":"[x]"}]}`,
			[]message{{0, " 21.5\n", `{"x":21.5}`}, {0, `[1]`, `{"x":[1]}`}}},
		{"the last of equal names counts", `{"select":[{"source":"[a][b]","target":"[x]"}]}`, []message{
			{0, `{"a":{"b":1},"a":{"b":2}}`, `{"x":2}`}, {0, `{"a":{"b":1},"a":{"c":2}}`, "invalid"},
			{0, `{"a":{"b":1},"a":3}`, "invalid"}, {0, `{"a":{"b":1,"b":2}}`, `{"x":2}`},
		}},
		{"escaped names are the same names", `{"select":[{"source":"[aü😀/]","target":"[x]"}]}`, []message{
			{0, `{"\u0061\u00Fc\ud83d\ude00\/":1}`, `{"x":1}`}, {0, `{"a\u00fc\ud83d/":1}`, "invalid"},
		}},
		{"a value inside another is copied with it", `{"select":[{"source":"[a]","target":"[x]"},{"source":"[a][b]","target":"[y]"}]}`,
			[]message{{0, `{"a":{"b":1}}`, `{"x":{"b":1},"y":1}`}, {0, `{"a":1}`, "invalid"}}},
		{"a payload that is not JSON is invalid", `{"select":[{"source":"","target":"[x]"}]}`, []message{
			{0, ``, "invalid"}, {0, `{"a":1`, "invalid"}, {0, `{"a":1}}`, "invalid"}, {0, `{"a":01}`, "invalid"}, {0, `{'a':1}`, "invalid"},
			{0, "[\"\n\"]", "invalid"}, {0, `[1,]`, "invalid"}, {0, `{"a":1,}`, "invalid"}, {0, `NaN`, "invalid"}, {0, `"\x"`, "invalid"}, {0, `"\u00@0"`, "invalid"}, {0, `"\u00 0"`, "invalid"}, {0, `"\u00g0"`, "invalid"}, {0, `"\u00"`, "invalid"}, {0, "\xef\xbb\xbf1", "invalid"},
			{0, strings.Repeat("[", 128) + strings.Repeat("]", 128), `{"x":` + strings.Repeat("[", 128) + strings.Repeat("]", 128) + `}`},
			{0, "[[" + strings.Repeat("[[]],{},", 200) + "{}]]", `{"x":[[` + strings.Repeat("[[]],{},", 200) + "{}]]}"},
			{0, strings.Repeat("[", 129) + strings.Repeat("]", 129), "invalid"},
		}},
		{"a select that is missing is invalid, though it has only an alias", `{"select":[{"source":"[a]","alias":"a"},{"source":"[b]","target":"[b]"}]}`,
			[]message{{0, `{"b":1}`, "invalid"}, {0, `{"b":1,"a":2}`, `{"b":1}`}}},
		{"without any target the payload passes unchanged", `{"select":[{"source":"[a]","target":"","alias":"a"},{"function":{"name":"count"},"alias":"n"}]}`,
			[]message{{0, ` {"a":1, "b":2} `, ` {"a":1, "b":2} `}}},

		{"where alone lets payloads pass unchanged", `{"where":[{"left":"[a]","operator":"==","right":1}]}`, []message{
			{0, ` {"a":1, "b":2}`, ` {"a":1, "b":2}`}, {0, `{"a":2}`, "filtered"}, {0, `{"b":1}`, "filtered"}, {0, `{"a":`, "invalid"},
		}},
		{"a condition comes before what is missing", `{"select":[{"source":"[b]","target":"[b]","alias":"b"}],"where":[{"left":"[a]","operator":">","right":1}]}`,
			[]message{{0, `{"a":1}`, "filtered"}, {0, `{"a":2}`, "invalid"}, {0, `{"a":2,"b":0}`, `{"b":0}`}}},
		{"a condition on an alias that is missing filters", `{"select":[{"source":"[b]","target":"[b]","alias":"b"}],"where":[{"left":"b","operator":"!=","right":1}]}`,
			[]message{{0, `{"a":1}`, "filtered"}, {0, `{"b":1}`, "filtered"}, {0, `{"b":"1"}`, `{"b":"1"}`}}},
		{"the whole document is compared by an alias", `{"select":[{"source":"","alias":"v"}],"where":[{"left":"v","operator":">=","right":21.5}]}`,
			[]message{{0, `21.50`, `21.50`}, {0, `21.49`, "filtered"}}},

		{"count counts", `{"select":[{"target":"[n]","function":{"name":"count"}}]}`,
			[]message{{0, `1`, `{"n":1}`}, {0, `{}`, `{"n":2}`}, {0, `x`, "invalid"}, {0, `[]`, `{"n":3}`}}},
		{"the source of a count is ignored", `{"select":[{"source":"nonsense","target":"[n]","function":{"name":"count"}}]}`,
			[]message{{0, `1`, `{"n":1}`}}},
		{"min and max keep the spelling of the first extreme", `{"select":[{"source":"[a]","target":"[lo]","function":{"name":"min"}},{"source":"[a]","target":"[hi]","function":{"name":"max"}}]}`, []message{
			{0, `{"a":1.0}`, `{"lo":1.0,"hi":1.0}`}, {0, `{"a":1}`, `{"lo":1.0,"hi":1.0}`}, {0, `{"a":-2e0}`, `{"lo":-2e0,"hi":1.0}`},
			{0, `{"a":9007199254740993}`, `{"lo":-2e0,"hi":9007199254740993}`}, {0, `{"a":9007199254740992}`, `{"lo":-2e0,"hi":9007199254740993}`},
			{0, `{"a":1e400}`, `{"lo":-2e0,"hi":1e400}`}, {0, `{"a":"3"}`, "invalid"}, {0, `{"b":3}`, "invalid"}, {0, `{"a":null}`, "invalid"},
			{0, `{"a":` + strings.Repeat("9", 1024) + `}`, `{"lo":-2e0,"hi":` + strings.Repeat("9", 1024) + `}`}, {0, `{"a":` + strings.Repeat("9", 1025) + `}`, "invalid"},
		}},
		{"sum is exact for integers, then a float", `{"select":[{"source":"[a]","target":"[s]","function":{"name":"sum"}}]}`, []message{
			{0, `{"a":9007199254740993}`, `{"s":9007199254740993}`}, {0, `{"a":1e0}`, `{"s":9007199254740994}`},
			{0, `{"a":9214364837600034813}`, `{"s":9223372036854775807}`}, {0, `{"a":-0}`, `{"s":9223372036854775807}`},
			{0, `{"a":1}`, `{"s":9223372036854776000}`}, {0, `{"a":-9223372036854775808}`, `{"s":0}`},
			{0, `{"a":0.1}`, `{"s":0.1}`}, {0, `{"a":0.2}`, `{"s":0.30000000000000004}`}, {0, `{"a":0.3}`, `{"s":0.6}`}, {0, `{"a":1e22}`, `{"s":1e+22}`},
		}},
		{"a sum that begins beyond int64 is a float", `{"select":[{"source":"","target":"[s]","function":{"name":"sum"}}]}`,
			[]message{{0, `9223372036854775808`, `{"s":9223372036854776000}`}, {0, `-9223372036854775809`, `{"s":0}`}}},
		{"a sum goes down to the least int64", `{"select":[{"source":"","target":"[s]","function":{"name":"sum"}}]}`,
			[]message{{0, `-9223372036854775808`, `{"s":-9223372036854775808}`}, {0, `-1`, `{"s":-9223372036854776000}`}}},
		{"sum loses no small parts", `{"select":[{"source":"","target":"[s]","function":{"name":"sum"}}]}`,
			[]message{{0, `1e100`, `{"s":1e+100}`}, {0, `1`, `{"s":1e+100}`}, {0, `-1e100`, `{"s":1}`}}},
		{"sum is rounded once", `{"select":[{"source":"","target":"[s]","function":{"name":"sum"}}]}`, []message{
			{0, `-9223372036854775808`, `{"s":-9223372036854775808}`}, {0, `0.7`, `{"s":-9223372036854776000}`}, {0, `0.5`, `{"s":-9223372036854776000}`},
			{0, `9223372036854775807`, `{"s":0.19999999999999996}`}, {0, `1`, `{"s":1.2}`}, {0, `1e300`, `{"s":1e+300}`}, {0, `1e-300`, `{"s":1e+300}`}, {0, `-1.2`, `{"s":1e+300}`}, {0, `-1e300`, `{"s":1e-300}`},
			{0, `1e16`, `{"s":10000000000000000}`}, {0, `1`, `{"s":10000000000000002}`}, {0, `-2e-300`, `{"s":10000000000000000}`},
		}},
		{"sum never becomes infinite", `{"select":[{"source":"","target":"[s]","function":{"name":"sum"}},{"target":"[n]","function":{"name":"count"}}]}`, []message{
			{0, `1e308`, `{"s":1e+308,"n":1}`}, {0, `1e308`, "invalid"}, {0, `1e309`, "invalid"}, {0, `-1e308`, `{"s":0,"n":2}`}, {0, `1e-400`, `{"s":0,"n":3}`},
		}},
		{"an invalid message changes no aggregate",
			`{"select":[{"source":"[a]","target":"[s]","function":{"name":"sum"}},{"source":"[b]","target":"[m]","function":{"name":"max"}},{"source":"[c]","target":"[c]"},{"target":"[n]","function":{"name":"count"}},{"target":"[t]","function":{"name":"time_bucket","intervalsize":10}}]}`,
			[]message{{0, `{"a":1,"b":1,"c":1}`, `{"s":1,"m":1,"c":1,"n":1,"t":0}`}, {1, `{"a":5,"b":"x","c":1}`, "invalid"}, {2, `{"a":5,"b":5}`, "invalid"},
				{11, `{"a":"x","b":5,"c":1}`, "invalid"}, {3, `{"a":1,"b":0,"c":1}`, `{"s":2,"m":1,"c":1,"n":2,"t":0}`}}},

		{"a new bucket starts all anew, an earlier one does not",
			`{"select":[{"target":"[t]","function":{"name":"time_bucket","intervalsize":60,"intervaloffset":15}},{"source":"[a]","target":"[s]","function":{"name":"sum"}},{"source":"[a]","target":"[lo]","function":{"name":"min"}},{"target":"[n]","function":{"name":"count"}}]}`,
			[]message{{74.999, `{"a":1}`, `{"t":15,"s":1,"lo":1,"n":1}`}, {15, `{"a":2}`, `{"t":15,"s":3,"lo":1,"n":2}`}, {14, `{"a":3}`, `{"t":15,"s":6,"lo":1,"n":3}`},
				{75, `{"a":4}`, `{"t":75,"s":4,"lo":4,"n":1}`}, {30, `{"a":5}`, `{"t":75,"s":9,"lo":4,"n":2}`}}},
		{"a bucket starts at fractions and before 1970", `{"select":[{"source":"ignored","target":"[t]","function":{"name":"time_bucket","intervalsize":0.25,"intervaloffset":-0.05}}]}`, []message{
			{0, `1`, `{"t":-0.05}`}, {0.2, `1`, `{"t":0.2}`}, {0.199, `1`, `{"t":-0.05}`}, {-0.051, `1`, `{"t":-0.3}`}, {1.951, `1`, `{"t":1.95}`}, {-2.05, `1`, `{"t":-2.05}`},
		}},
		{"an offset beyond the interval is as good", `{"select":[{"target":"[t]","function":{"name":"time_bucket","intervalsize":1e1,"intervaloffset":123}}]}`,
			[]message{{0, `1`, `{"t":-7}`}, {4, `1`, `{"t":3}`}, {0, `1`, `{"t":-7}`}}},
		{"a condition on the message keeps it out of the aggregates", `{"select":[{"source":"[a]","target":"[s]","function":{"name":"sum"}},{"source":"[b]","target":"[b]","alias":"b"}],"where":[{"left":"b","operator":"==","right":"x"}]}`,
			[]message{{0, `{"a":1,"b":"x"}`, `{"s":1,"b":"x"}`}, {0, `{"a":5,"b":"y"}`, "filtered"}, {0, `{"b":"y"}`, "filtered"}, {0, `{"a":2,"b":"\u0078"}`, `{"s":3,"b":"\u0078"}`}}},
		{"a condition on an aggregate comes after it", `{"select":[{"source":"[a]","target":"[s]","alias":"s","function":{"name":"sum"}}],"where":[{"left":"s","operator":">","right":2}]}`,
			[]message{{0, `{"a":1}`, "filtered"}, {0, `{"a":1.5}`, `{"s":2.5}`}, {0, `{"b":1}`, "invalid"}}},
		{"a condition on a count needs no target", `{"select":[{"alias":"n","function":{"name":"count"}}],"where":[{"left":"n","operator":">=","right":2}]}`,
			[]message{{0, `1`, "filtered"}, {0, `{"a":1}`, `{"a":1}`}}},
		{"a condition on an extreme", `{"select":[{"source":"","alias":"m","target":"[m]","function":{"name":"max"}}],"where":[{"left":"m","operator":"==","right":2}]}`,
			[]message{{0, `1`, "filtered"}, {0, `2.0`, `{"m":2.0}`}, {0, `1`, `{"m":2.0}`}}},
		{"a condition on the bucket", `{"select":[{"alias":"t","function":{"name":"time_bucket","intervalsize":10}}],"where":[{"left":"t","operator":"<","right":10}]}`,
			[]message{{9, `1`, `1`}, {10, `1`, "filtered"}, {9, `1`, `1`}}},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			q := compile(t, c.query)
			s := q.NewState()
			for i, m := range c.messages {
				if got := run(q, s, m.payload, m.at); got != m.want {
					t.Errorf("message %d, %.100s: got %.200s, want %.200s", i, m.payload, got, m.want)
				}
			}
		})
	}
}

// TestWhere compares values of all types.
func TestWhere(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ left, right, order string }{
		{`1`, `1`, "="}, {`1.0`, `1`, "="}, {`10e-1`, `1`, "="}, {`0.1e1`, `1`, "="}, {`100`, `1e2`, "="}, {`-0`, `0.00`, "="}, {`0e5`, `0`, "="},
		{`1200`, `1.2e3`, "="}, {`0.00120`, `1.2E-3`, "="}, {`1e99999999999999999999`, `1e400`, ">"}, {`1e-99999999999999999999`, `0`, ">"},
		{`1e18446744073709551617`, `1e400`, ">"}, {`1e9223372036854775807`, `1e400`, ">"}, {`1e-9223372036854775808`, `1e-400`, "<"},
		{`1`, `2`, "<"}, {`10`, `9`, ">"}, {`-10`, `-9`, "<"}, {`-1`, `1`, "<"}, {`0`, `-1`, ">"}, {`0.5`, `0.49`, ">"}, {`1.5`, `15`, "<"}, {`0.05`, `0.5`, "<"},
		{`9007199254740993`, `9007199254740992`, ">"}, {`123456789012345678901234567890`, `123456789012345678901234567891`, "<"},
		{`1.0000000000000000000001`, `1`, ">"}, {`-1.0000000000000000000001`, `-1`, "<"},
		{`"a"`, `"a"`, "="}, {`"a"`, `"b"`, "<"}, {`"B"`, `"a"`, "<"}, {`"a"`, `""`, ">"}, {`"\u0061\n"`, `"a\n"`, "="}, {`"ü"`, `"\u00fc"`, "="}, {`"😀"`, `"\ud83d\ude00"`, "="}, {`"\ud83d\ude00"`, `"😀"`, "="}, {`"a\\"`, `"a"`, ">"},
		{`"\b\f\r\t\/\""`, `"\u0008\u000c\u000d\u0009/\u0022"`, "="}, {`"\ud83dx\ud83d\u0041\udc00"`, `"\ufffdx\ufffdA\ufffd"`, "="},
		{`true`, `true`, "="}, {`false`, `true`, "≠"}, {`true`, `false`, "≠"},
		{`"1"`, `1`, "≠"}, {`1`, `"1"`, "≠"}, {`true`, `"true"`, "≠"}, {`1`, `true`, "≠"}, {`null`, `0`, "≠"}, {`null`, `false`, "≠"}, {`[1]`, `1`, "≠"}, {`{}`, `""`, "≠"}, {`null`, `"null"`, "≠"},
	} {
		for operator, holds := range map[string]string{"==": "=", "!=": "<>≠", "<": "<", ">": ">", "<=": "<=", ">=": ">="} {
			if (c.right == "true" || c.right == "false") && operator != "==" && operator != "!=" {
				continue // invalid, see TestProblems
			}
			q := compile(t, `{"where":[{"left":"[v]","operator":"`+operator+`","right":`+c.right+`}]}`)
			want := "filtered"
			if strings.Contains(holds, c.order) {
				want = `{"v":` + c.left + `}`
			}
			if got := run(q, q.NewState(), `{"v":`+c.left+`}`, 0); got != want {
				t.Errorf("%s %s %s: got %s, want %s", c.left, operator, c.right, got, want)
			}
		}
	}
}

// TestSumOfMany adds a number that is not exact as a float64.
func TestSumOfMany(t *testing.T) {
	t.Parallel()
	q := compile(t, `{"select":[{"source":"","target":"[s]","function":{"name":"sum"}}]}`)
	s, got := q.NewState(), ""
	for range 100_000 {
		got = run(q, s, `0.1`, 0)
	}
	if want := `{"s":10000}`; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}

func compile(tb testing.TB, text string) *query.Query {
	tb.Helper()
	q, err := query.Compile([]byte(text))
	if err != nil {
		tb.Fatalf("compile %s: %v", text, err)
	}
	return q
}

// run returns the output, or the verdict.
func run(q *query.Query, s *query.State, payload string, at float64) string {
	const before = "before"
	out, v, _ := q.Run([]byte(before), []byte(payload), int64(math.Round(at*1000)), s)
	rest, kept := strings.CutPrefix(string(out), before)
	switch {
	case !kept || v != query.Match && rest != "":
		return "broken: " + string(out)
	case v == query.Match:
		return rest
	case v == query.Filtered:
		return "filtered"
	}
	return "invalid"
}

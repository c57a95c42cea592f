package query_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"signalbox/broker/streams/query"
)

// TestProblems checks the path and text of every problem.
func TestProblems(t *testing.T) {
	t.Parallel()
	const (
		required = "is required"
		path     = "must be names in brackets, as in [Machine Data][Speed]"
		unclosed = "must close every bracket; a closing bracket in a name is written twice"
		taken    = "must not be the target of another select, nor inside one or around one"
		seconds  = "must be seconds with at most 3 decimals, not beyond 1e12"
		bracket  = "must not begin or end with a square bracket"
	)
	for _, c := range []struct {
		query string
		want  query.Problems
	}{
		{`{"select":`, query.Problems{{"", "must be JSON"}}},
		{`{} {}`, query.Problems{{"", "must be JSON"}}},
		{`[]`, query.Problems{{"", "must be an object"}}},
		{`"x"`, query.Problems{{"", "must be an object"}}},
		{`{"select":{},"where":{}}`, query.Problems{{"select", "must be an array"}, {"where", "must be an array"}}},
		{`{"select":[null,[]]}`, query.Problems{{"select[0]", "must be an object"}, {"select[1]", "must be an object"}}},
		{`{"select":[{}]}`, query.Problems{{"select[0].source", required}}},
		{`{"select":[{"source":1,"target":true,"alias":[],"function":null}]}`, query.Problems{
			{"select[0].source", "must be a string"}, {"select[0].target", "must be a string"}, {"select[0].alias", "must be a string"}}},
		{`{"select":[{"source":"a"},{"source":"[a"},{"source":"[a]]"},{"source":"[a]b"},{"source":"[a] [b]"},{"source":"[a][]"}]}`, query.Problems{
			{"select[0].source", path}, {"select[1].source", unclosed}, {"select[2].source", unclosed}, {"select[3].source", path},
			{"select[4].source", path}, {"select[5].source", "must have a name in every bracket"}}},
		{`{"select":[{"source":"` + strings.Repeat("[a]", 33) + `"},{"source":"` + strings.Repeat("[a]", 32) + `","target":"x"}]}`, query.Problems{
			{"select[0].source", "must have at most 32 members"}, {"select[1].target", path}}},
		{`{"select":[{"source":"[a]","target":"[x]"},{"source":"[b]","target":"[x]"},{"source":"[b]","target":"[x][y]"},{"source":"[b]","target":"[z][y]"},{"source":"[b]","target":"[z]"}]}`,
			query.Problems{{"select[1].target", taken}, {"select[2].target", taken}, {"select[4].target", taken}}},
		{`{"select":[{"source":"[a]","alias":"x"},{"source":"[b]","alias":"x"},{"source":"[b]","alias":""},{"source":"[b]","alias":"[x"},{"source":"[b]","alias":"x]"}]}`,
			query.Problems{{"select[1].alias", "must not be the alias of another select"}, {"select[2].alias", "must not be empty"},
				{"select[3].alias", bracket}, {"select[4].alias", bracket}}},
		{`{"select":[{"source":"[a]","function":"max"},{"source":"[a]","function":{}},{"source":"[a]","function":{"name":1}},{"source":"[a]","function":{"name":"MAX"}}]}`,
			query.Problems{{"select[0].function", "must be an object"}, {"select[1].function.name", required}, {"select[2].function.name", "must be a string"},
				{"select[3].function.name", "must be min, max, sum, count or time_bucket"}}},
		{`{"select":[{"function":{"name":"min"}},{"function":{"name":"max"}},{"function":{"name":"sum"}},{"function":{"name":"count"}}]}`,
			query.Problems{{"select[0].source", required}, {"select[1].source", required}, {"select[2].source", required}}},
		{bucket(``), query.Problems{{"select[0].function.intervalsize", required}}},
		{bucket(`,"intervalsize":0`), query.Problems{{"select[0].function.intervalsize", "must be greater than 0"}}},
		{bucket(`,"intervalsize":-1`), query.Problems{{"select[0].function.intervalsize", "must be greater than 0"}}},
		{bucket(`,"intervalsize":"60","intervaloffset":{}`), query.Problems{
			{"select[0].function.intervalsize", "must be a number"}, {"select[0].function.intervaloffset", "must be a number"}}},
		{bucket(`,"intervalsize":0.0001,"intervaloffset":1e13`), query.Problems{
			{"select[0].function.intervalsize", seconds}, {"select[0].function.intervaloffset", seconds}}},
		{bucket(`,"intervalsize":1e999999999999999999999`), query.Problems{{"select[0].function.intervalsize", seconds}}},
		{`{"select":[{"function":{"name":"time_bucket","intervalsize":1}},{"function":{"name":"time_bucket","intervalsize":1}}]}`,
			query.Problems{{"select[1].function.name", "must not be time_bucket in more than one select"}}},
		{`{"where":[{},{}]}`, query.Problems{{"where", "must not have more elements than 1"}}},
		{`{"where":[[]]}`, query.Problems{{"where[0]", "must be an object"}}},
		{`{"where":[{}]}`, query.Problems{{"where[0].operator", required}, {"where[0].left", required}, {"where[0].right", required}}},
		{`{"where":[{"operator":1,"left":1,"right":null}]}`, query.Problems{{"where[0].operator", "must be a string"}, {"where[0].left", "must be a string"},
			{"where[0].right", "must be a string, a number or a boolean"}}},
		{`{"where":[{"operator":"=","left":"[a","right":{}}]}`, query.Problems{{"where[0].operator", "must be ==, !=, >, <, >= or <="}, {"where[0].left", unclosed},
			{"where[0].right", "must be a string, a number or a boolean"}}},
		{where(`"b"`, `==`, `[1]`), query.Problems{{"where[0].left", "must be the alias of a select, or a path in brackets"}, {"where[0].right", "must be a string, a number or a boolean"}}},
		{where(`""`, `==`, `1`), query.Problems{{"where[0].left", "must be the alias of a select, or a path in brackets"}}},
		{where(`"a"`, `<`, `true`), query.Problems{{"where[0].operator", "must be == or != where right is a boolean"}}},
		{where(`"a"`, `==`, `true`), nil},
		{where(`"a"`, `!=`, `false`), nil},
		{`{"select":[` + strings.Repeat(`{"source":"[a]"},`, 256) + `{"source":"[a]"}]}`, query.Problems{{"select", "must not have more elements than 256"}}},
		{`{"select":[` + strings.Repeat(`{"source":"[a]"},`, 255) + `{"source":"[a]"}]}`, nil},
	} {
		t.Run(fmt.Sprintf("%.100s", c.query), func(t *testing.T) {
			t.Parallel()
			_, err := query.Compile([]byte(c.query))
			got, _ := errors.AsType[query.Problems](err)
			if diff := cmp.Diff(c.want, got); diff != "" {
				t.Errorf("problems (-want +got):\n%s", diff)
			}
		})
	}
}

// bucket returns a query with the given members of a time_bucket.
func bucket(members string) string {
	return `{"select":[{"function":{"name":"time_bucket"` + members + `}}]}`
}

// where returns a query with a condition and the alias a.
func where(left, operator, right string) string {
	return `{"select":[{"source":"[a]","alias":"a"}],"where":[{"left":` + left + `,"operator":"` + operator + `","right":` + right + `}]}`
}

func TestProblemsAreOneLine(t *testing.T) {
	t.Parallel()
	_, err := query.Compile([]byte(`{"select":[{"source":"a","target":"b"}]}`))
	const each = "must be names in brackets, as in [Machine Data][Speed]"
	if want := "select[0].source " + each + "; select[0].target " + each; err == nil || err.Error() != want {
		t.Errorf("got %v, want %s", err, want)
	}
	if _, err := query.Compile([]byte(`x`)); err == nil || err.Error() != "must be JSON" {
		t.Errorf("got %v, want must be JSON", err)
	}
}

func TestEmptyAndStateful(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		query           string
		empty, stateful bool
	}{
		{``, true, false}, {` {} `, true, false}, {`{"select":[]}`, true, false},
		{`{"select":[{"source":""}]}`, false, false},
		{`{"select":[{"function":{"name":"time_bucket","intervalsize":1}}]}`, false, false},
		{`{"select":[{"function":{"name":"count"}}]}`, false, true},
		{`{"select":[{"source":"[a]","function":{"name":"max"}}]}`, false, true},
		{`{"where":[{"left":"[a]","operator":"==","right":1}]}`, false, false},
	} {
		q := compile(t, c.query)
		if q.Empty() != c.empty || q.Stateful() != c.stateful {
			t.Errorf("%s: got empty %v, stateful %v", c.query, q.Empty(), q.Stateful())
		}
	}
}

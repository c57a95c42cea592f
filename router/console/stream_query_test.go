package console

import (
	"encoding/json"
	"slices"
	"testing"
)

// TestQueryRoundTrip checks that what fields show is the same query when it is formatted
// again, and that what they cannot show stays in the JSON.
func TestQueryRoundTrip(t *testing.T) {
	t.Parallel()
	for text, asFields := range map[string]bool{
		``:                           true,
		`{}`:                         true,
		`null`:                       true,
		`{"select":[],"where":null}`: true,
		`{"select":[{"source":"[a][b]]]","target":"[x]","alias":"y","function":null}]}`:                              true,
		`{"select":[{"source":"","target":"[all]"},{"target":"[n]","function":{"name":"count"}},{}]}`:                true,
		`{"select":[{"target":"[t]","function":{"name":"time_bucket","intervalsize":60.50,"intervaloffset":-1e3}}]}`: true,
		`{"select":[{"target":"[t]","function":{"name":"time_bucket","intervalsize":"60"}}]}`:                        false,
		`{"where":[{"left":"[a]","operator":">=","right":1.0}]}`:                                                     true,
		`{"where":[{"left":"[a]","operator":"==","right":"<b>\u202e"}]}`:                                             true,
		`{"where":[{"left":"[a]","operator":"==","right":"true"}]}`:                                                  true,
		`{"where":[{"left":"[a]","operator":"!=","right":true}]}`:                                                    true,
		`{"where":[{"left":"[a]","operator":"=="}]}`:                                                                 true,
		`{"where":[{"left":"[a]","operator":"==","right":[1]}]}`:                                                     false,
		`{"where":[{"left":"","operator":"","right":1}]}`:                                                            false,
		`{"where":[{"left":"[a]","operator":"==","right":1},{"left":"[b]","operator":"==","right":1}]}`:              false,
		`{"select":[{"source":"[a]","alias":""}]}`:                                                                   false,
		`{"select":[{"source":1}]}`:                                                                                  false,
		`{"select":[{"source":"[a]","targt":"[x]"}]}`:                                                                false,
		`{"Select":[{"source":"[a]"}]}`:                                                                              false,
		`{"were":[]}`:                                                                                                false,
		`{"were":null}`:                                                                                              false,
		`{"select":{}}`:                                                                                              false,
		`[]`:                                                                                                         false,
		`{`:                                                                                                          false,
	} {
		fields, ok := parseQuery(text)
		if ok != asFields {
			t.Errorf("%s as fields: %t\n%s", text, ok, fields.format())
		}
		if !ok {
			continue
		}
		again, ok := parseQuery(fields.format())
		if !ok || !slices.Equal(again.Selects, fields.Selects) || again.Condition != fields.Condition {
			t.Errorf("%s becomes %s", text, fields.format())
		}
	}
	many := `{"select":[` + string(append(slices.Repeat([]byte("{},"), maxSelectRows), "{}]}"...))
	if _, ok := parseQuery(many); ok {
		t.Error("more selects than rows are shown as fields")
	}
}

// FuzzQueryFields checks that the JSON of fields makes the same fields, and that it always
// is JSON.
func FuzzQueryFields(f *testing.F) {
	f.Add(`{"select":[{"source":"[a]"}]}`, "1", "number")
	f.Add(`{"where":[{"left":"a","operator":"<","right":-0.5}]}`, "tru", "boolean")
	f.Fuzz(func(t *testing.T, text, right, kind string) {
		if fields, ok := parseQuery(text); ok {
			again, ok := parseQuery(fields.format())
			if !ok || !slices.Equal(again.Selects, fields.Selects) || again.Condition != fields.Condition {
				t.Errorf("%s becomes %s", text, fields.format())
			}
		}
		q := queryFields{Selects: []selectRow{{Size: right, Offset: right}}, Condition: conditionRow{"x", "==", kind, right}}
		if out := q.format(); !json.Valid([]byte(out)) {
			t.Errorf("%q of kind %q makes %q", right, kind, out)
		}
	})
}

func TestQueryMoves(t *testing.T) {
	t.Parallel()
	f := queryFields{Selects: []selectRow{{Target: "a"}, {Target: "b"}, {Target: "c"}}}
	f.move(0, -1)
	f.move(2, +1)
	f.move(-1, 1)
	f.remove(3)
	f.remove(-1)
	f.move(0, 1)
	f.remove(2)
	if want := []selectRow{{Target: "b"}, {Target: "a"}}; !slices.Equal(f.Selects, want) {
		t.Errorf("got %+v", f.Selects)
	}
}

package router

import (
	"encoding/json"
	"testing"

	"github.com/getkin/kin-openapi/openapi3"
)

func TestExamples_are_what_operations_take_and_give(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	d := loaded(t, f.router.document)
	examples := 0
	for _, row := range f.router.rows {
		if row.BodyExample != "" {
			examples++
			if bad := row.bindJSON(row.BodyExample); len(bad) > 0 {
				t.Errorf("%s: body example: %v", row.ID, bad)
			}
		}
		if row.Example == "" {
			continue
		}
		examples++
		var v any
		must(t, json.Unmarshal([]byte(row.Example), &v))
		answer := d.Paths.Value(row.Path).GetOperation(row.Method).Responses.Status(row.Status)
		if err := answer.Value.Content["application/json"].Schema.Value.VisitJSON(v, openapi3.EnableJSONSchema2020()); err != nil {
			t.Errorf("%s: example: %v", row.ID, err)
		}
	}
	if examples < 9 {
		t.Errorf("only %d examples", examples)
	}
}

func TestBody_may_be_left_out_where_a_row_says_so(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	for id, bodies := range map[string]map[string]bool{
		"testBridge":       {"": true, " \r\n": true, "{}": true, "null": false, "[]": false, "{": false},
		"retryDeadLetters": {"": true, "{}": true, `{"ids":["1"]}`: true, `{"ids":[]}`: false, `{"ids":null}`: false, `{"ids":[1]}`: false, "[]": false},
		"setBridgeConfig":  {"": false, "{}": true},
	} {
		row := f.row(t, id)
		for body, ok := range bodies {
			if bad := row.bindJSON(body); (len(bad) == 0) != ok {
				t.Errorf("%s %q: %v", id, body, bad)
			}
		}
	}
}

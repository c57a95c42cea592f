package router

import (
	"encoding/json"
	"fmt"
	"reflect"
	"strings"
	"testing"

	"signalbox/broker"
)

// TestMasked checks what the audit log has of a body.
func TestMasked(t *testing.T) {
	t.Parallel()
	type body struct {
		sampleBody
		Password broker.Secret `json:"password"`
	}
	p, err := shapes{}.planOf(reflect.TypeFor[struct{ Body body }]())
	if err != nil {
		t.Fatal(err)
	}
	many := func(n int) string {
		return "[" + strings.Repeat(`{"name":"a"},`, n-1) + `{"name":"a"}]`
	}
	for _, c := range []struct{ name, body, want string }{
		{"members of every kind", ` { "text" : "caf\u00e9 \"x\"", "int": -3, "float": 1.5, "bool": true, "inner": "i", "when": "2026-11-27T12:00:00Z" } `,
			`{"bool":true,"float":1.5,"inner":"i","int":-3,"text":"café \"x\"","when":"2026-11-27T12:00:00Z"}`},
		{"a secret", `{"password":"correct horse"}`, `{"password":"***"}`},
		{"members that the type does not have", `{"text":"a","other":{"text":"b"},"Text":"c"}`, `{"text":"a"}`},
		{"null", `{"text":null,"list":null}`, `{"list":null,"text":null}`},
		{"nested", `{"list":[{"name":"a","more":1}, {"name":"b"}],"table":{"x":1,"y":2},"optlist":[]}`,
			`{"list":[{"name":"a"},{"name":"b"}],"optlist":[],"table":{"x":1,"y":2}}`},
		{"free members", `{"raw":{"a":[1,{"b":null}]},"any":[1,"x"]}`, `{"any":[1,"x"],"raw":{"a":[1,{"b":null}]}}`},
		{"a list at its bound", `{"list":` + many(maxAuditEntries) + `}`, `{"list":` + many(maxAuditEntries) + `}`},
		{"a list beyond its bound", `{"list":` + many(maxAuditEntries+3) + `}`,
			`{"list":` + strings.TrimSuffix(many(maxAuditEntries), "]") + `,{"omitted":3}]}`},
		{"nothing", ``, `null`},
	} {
		t.Run(c.name, func(t *testing.T) {
			if message := checkJSON([]byte(c.body)); message != "" && c.body != "" {
				t.Fatalf("the body %s", message)
			}
			got, err := json.Marshal(p.body.shape.masked([]byte(c.body), &p.body.rules))
			if err != nil || string(got) != c.want {
				t.Errorf("got %s, %v; want %s", got, err, c.want)
			}
		})
	}
}

// TestMasked_tables checks that a table in the audit log is not longer than a list.
func TestMasked_tables(t *testing.T) {
	t.Parallel()
	p, err := shapes{}.planOf(reflect.TypeFor[struct{ Body sampleBody }]())
	if err != nil {
		t.Fatal(err)
	}
	table := map[string]int{}
	for n := range maxAuditEntries + 5 {
		table[fmt.Sprint("entry ", n)] = n
	}
	body, err := json.Marshal(map[string]any{"table": table})
	if err != nil {
		t.Fatal(err)
	}
	got, _ := p.body.shape.masked(body, &p.body.rules).(map[string]any)
	if entries, _ := got["table"].(map[string]any); len(entries) != maxAuditEntries {
		t.Errorf("got %d entries, want %d", len(entries), maxAuditEntries)
	}
}

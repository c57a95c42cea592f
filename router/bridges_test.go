package router

import (
	"context"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"signalbox/broker"
	"signalbox/handlers"
)

func TestBody_may_be_omitted_if_a_row_allows_it(t *testing.T) {
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

func TestNames_in_paths_may_hold_slashes(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	row := f.row(t, "listDeadLetters")
	for name, want := range map[string]string{"line%201": "line 1", "a%2Fb%2f": "a/b/", "a%2F..%2Fb": "a/../b", "%25": "%", "%252F": "%2F"} {
		var got string
		watched := *row
		watched.Do.call = func(_ context.Context, r any) (any, error) {
			got = r.(*handlers.ListDeadLettersRequest).ConnectionName
			return nil, broker.NotSupported("listDeadLetters", broker.CapBridges)
		}
		rt := *f.router
		rt.rows = []*route{&watched}
		must(t, rt.build())
		path := strings.Replace(f.path(strings.Replace(row.Path, "{connectionName}", "NAME", 1)), "NAME", name, 1)
		w := httptest.NewRecorder()
		r := httptest.NewRequest(http.MethodGet, path, nil)
		r.Header.Set("Authorization", "Bearer "+f.tokens["viewer"])
		rt.ServeHTTP(w, r)
		if wantError(t, w.Result(), 405, handlers.CodeNotSupported); got != want {
			t.Errorf("%s: got %q, want %q", name, got, want)
		}
	}
}

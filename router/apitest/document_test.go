package apitest

import (
	"net/http"
	"os"
	"strings"
	"testing"
)

// TestBodiesAreChecked compares bodies with the schemas of the document.
func TestBodiesAreChecked(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile("../testdata/openapi.json")
	if err != nil {
		t.Fatal(err)
	}
	d, err := parseDocument(text)
	if err != nil {
		t.Fatal(err)
	}
	for name, test := range map[string]struct {
		path, body string
		status     int
		fails      string
	}{
		"a success":                 {"/api/projects", `[]`, 200, ""},
		"another type":              {"/api/projects", `{}`, 200, "want array"},
		"a missing property":        {"/api/projects", `[{"id":"x"}]`, 200, "missing properties"},
		"another format":            {"/api/log", `[{"time":"yesterday","level":"info","message":"started"}]`, 200, "not valid date-time"},
		"an error":                  {"/api/projects", `{"status":403,"code":"FORBIDDEN","message":"no"}`, 403, ""},
		"an error without the code": {"/api/projects", `{"status":403,"message":"no"}`, 403, "missing property 'code'"},
		"a path with parameters":    {"/api/projects/p/brokers/b", `[]`, 200, "want object"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r, err := http.NewRequestWithContext(t.Context(), "GET", test.path, nil)
			if err != nil {
				t.Fatal(err)
			}
			route, _, err := d.routes.FindRoute(r)
			if err != nil {
				t.Fatal(err)
			}
			err = d.checkResponseBody(route, &Response{Status: test.status, Body: []byte(test.body),
				Header: http.Header{"Content-Type": {"application/json; charset=utf-8"}}})
			if test.fails == "" && err != nil || test.fails != "" && (err == nil || !strings.Contains(err.Error(), test.fails)) {
				t.Errorf("got %v, want %q", err, test.fails)
			}
		})
	}
}

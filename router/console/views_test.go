package console

import (
	"cmp"
	"html/template"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/jba/templatecheck"
)

// found are the responses that a page about one entry of a list needs, by operation; the
// entry is the one that testPath selects.
var found = map[string]string{
	"me":           `{"id":"1","name":"Administrator","email":"admin@localhost","root":true}`,
	"listTokens":   `[{"id":"1"}]`,
	"listSessions": `[{"id":"1"}]`,
	"getCluster":   `{"nodes":[{"nodeid":1}]}`,
}

// emptyService is the API with as little data as pages can be made of: an administrator
// is signed in, every object has only zero values, and every list is empty, unless it is
// asked for one object.
func emptyService(_ *http.Request, operation string, _ map[string]string, query string, _ []byte) *Response {
	if strings.Contains(query, "filterMode=equals") ||
		operation == "listClients" && strings.Contains(query, "username=") ||
		operation == "listRetained" && strings.Contains(query, "topic=") {
		return &Response{Status: http.StatusOK, Header: http.Header{"X-Total-Count": {"1"}}, Body: []byte("[{}]")}
	}
	return &Response{Status: http.StatusOK, Header: http.Header{"X-Total-Count": {"0"}}, Body: []byte(cmp.Or(found[operation], "null"))}
}

func newTestConsole(t *testing.T, call Call) *Console {
	t.Helper()
	c, err := New(call, func(operation string) string { return "/api/" + operation }, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	if c.loadFiles(); c.loadErr != nil {
		t.Fatal(c.loadErr)
	}
	return c
}

// testPath returns an address of the page, about an object that is named 1.
func (p *page) testPath() string {
	path := ""
	for _, s := range p.segments {
		if s[0] == '{' {
			s = "1"
		}
		path += "/" + s
	}
	return path + "?node=1&username=1&groupname=1&rolename=1&topic=1"
}

// TestViews checks every template, and each fragment of its page, against the type of the
// page's view: also in branches that no data leads to.
func TestViews(t *testing.T) {
	t.Parallel()
	c := newTestConsole(t, emptyService)
	for _, p := range c.pages {
		t.Run(p.name, func(t *testing.T) {
			t.Parallel()
			v := viewOf(t, c, p)
			if v == nil {
				return
			}
			set, err := parsePage(p.template, c.functions(c.words.locales[0], "."))
			if err != nil {
				t.Fatal(err)
			}
			checkTemplate(t, set, v)
			for _, name := range append([]string{"content"}, p.fragments...) {
				fragment := set.Lookup(name)
				if fragment == nil {
					t.Errorf("the fragment %s is not defined", name)
					continue
				}
				checkTemplate(t, fragment, v)
			}
		})
	}
}

// viewOf returns the view of a page that has no data, nil for a page that only leads to
// another one.
func viewOf(t *testing.T, c *Console, p *page) view {
	t.Helper()
	r := httptest.NewRequest(http.MethodGet, p.testPath(), nil)
	params, ok := p.match(strings.Split(strings.TrimPrefix(r.URL.Path, "/"), "/"))
	if !ok {
		t.Fatalf("%s is not the path of the page", r.URL.Path)
	}
	q := c.newRequest(httptest.NewRecorder(), r, p, params)
	if p.public {
		q.me = nil
	}
	v, err := p.view(q)
	switch err.(type) { //nolint:errorlint // returned as they are
	case errRedirect, errDownload:
		return nil
	}
	if err != nil {
		t.Fatalf("the view cannot be made without data: %v", err)
	}
	return v
}

func checkTemplate(t *testing.T, set *template.Template, v view) {
	t.Helper()
	if err := templatecheck.CheckHTML(set, v); err != nil {
		t.Error(err)
	}
}

// TestPagesWithoutData renders every page for a service without data, whole and each
// fragment alone.
func TestPagesWithoutData(t *testing.T) {
	t.Parallel()
	c := newTestConsole(t, emptyService)
	for _, p := range c.pages {
		t.Run(p.name, func(t *testing.T) {
			t.Parallel()
			for _, fragment := range append([]string{"", "content"}, p.fragments...) {
				r := httptest.NewRequest(http.MethodGet, p.testPath(), nil)
				if fragment != "" {
					r.Header.Set("X-Fragment", fragment)
				}
				w := httptest.NewRecorder()
				c.ServeHTTP(w, r)
				if w.Code != http.StatusOK && w.Code != http.StatusSeeOther && w.Code != http.StatusNoContent {
					t.Errorf("fragment %q: status %d: %s", fragment, w.Code, w.Body)
				}
			}
		})
	}
}

// TestUnknownPages checks that callers without a session cannot make the service keep a template for each
// depth that they think of.
func TestUnknownPages(t *testing.T) {
	t.Parallel()
	c := newTestConsole(t, func(*http.Request, string, map[string]string, string, []byte) *Response {
		return &Response{Status: http.StatusUnauthorized, Header: http.Header{}}
	})
	for depth := range 100 {
		w := httptest.NewRecorder()
		c.ServeHTTP(w, httptest.NewRequest(http.MethodGet, Path+strings.Repeat("/x", depth+1), nil))
		if w.Code != http.StatusNotFound {
			t.Errorf("depth %d: status %d", depth, w.Code)
		}
	}
	if n := len(c.views.made); n > c.segments {
		t.Errorf("%d templates are kept", n)
	}
}

package console

import (
	"bytes"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
)

// TestFragments checks what a script receives: the parts that it asks for, named in the
// header of the response; the whole page of an error, without that header; and nothing but
// an error for a part that the page does not have.
func TestFragments(t *testing.T) {
	t.Parallel()
	var log bytes.Buffer
	c, err := New(emptyService, func(operation string) string { return "/api/" + operation }, slog.New(slog.NewTextHandler(&log, nil)))
	if err != nil {
		t.Fatal(err)
	}
	for _, x := range []struct {
		method, path, ask string
		status            int
		parts, want       string
	}{
		{"GET", "/ui/users", "list", 200, "list", `<div id="list">`},
		{"GET", "/ui/users", "content,list", 200, "content,list", `<div id="list">`},
		{"GET", "/ui/users", "nothing", 400, "", "no such part"},
		{"POST", "/ui/users/new", "nothing", 400, "", "no such part"},
		{"GET", "/ui/nothing", "list", 404, "", "<h1>"},
		{"GET", "/ui/p/1/tokens/2/revoke", "content", 404, "", "<h1>"},
		{"POST", "/ui/users", "content", 400, "content", `role="alert"`},
	} {
		r := httptest.NewRequest(x.method, x.path, strings.NewReader(""))
		r.Header.Set("X-Fragment", x.ask)
		w := httptest.NewRecorder()
		c.ServeHTTP(w, r)
		if w.Code != x.status || w.Header().Get("X-Fragment") != x.parts || !strings.Contains(w.Body.String(), x.want) || strings.Contains(w.Body.String(), "<html") {
			t.Errorf("%s %s, part %s: %d, X-Fragment %q, want %d, %q and %s:\n%s", x.method, x.path, x.ask, w.Code, w.Header().Get("X-Fragment"), x.status, x.parts, x.want, w.Body)
		}
	}
	if log.Len() > 0 {
		t.Errorf("what a caller asks for is logged as a fault: %s", &log)
	}
}

// TestUnknownFragmentActs checks that a form is not acted upon if its response could not be
// shown.
func TestUnknownFragmentActs(t *testing.T) {
	t.Parallel()
	acted := false
	c := newTestConsole(t, func(r *http.Request, operation string, params map[string]string, query string, body []byte) *Response {
		acted = acted || operation == "createUser"
		return emptyService(r, operation, params, query, body)
	})
	r := httptest.NewRequest(http.MethodPost, "/ui/users/new", strings.NewReader("email=a%40example.com&password=0123456789ab"))
	r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	r.Header.Set("X-Fragment", "nothing")
	c.ServeHTTP(httptest.NewRecorder(), r)
	if acted {
		t.Error("a user was created")
	}
}

// TestIsInside checks which links are followed after the log-in.
func TestIsInside(t *testing.T) {
	t.Parallel()
	for link, want := range map[string]bool{
		"": true, "users": true, "p/1/brokers?x=a..b": true, "p/1/b/2/topics?prefix=a%2F..%2Fb": true, "p/1/b/2/client?username=a:b": true,
		"p/..x/brokers": true, "//evil.example": false, "/x": false, "https://evil.example": false, `\evil`: false, "a\tb": false,
		"..": false, "a/../../b": false, "%2e%2e/api": false, "a/.%2E/b": false, "a/%2E%2e": false, "%2e%2e?x": false,
		"%5cevil": false, "%zz": false, "a%00": false, "?x=1": true,
	} {
		if got := isInside(link); got != want {
			t.Errorf("isInside(%q) = %t", link, got)
		}
	}
}

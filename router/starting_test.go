package router

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"signalbox/handlers"
)

// TestServerWithoutAPI asks a server whose service has yet to start: it responds whether the process runs and is
// ready, and otherwise when to try again.
func TestServerWithoutAPI(t *testing.T) {
	t.Parallel()
	notReady := errors.New("the disk is full")
	ready := error(nil)
	s, err := New(DefaultConfig(), func(context.Context) error { return ready }, Program{Version: "v1"}, slog.New(slog.DiscardHandler))
	must(t, err)
	ask := func(path, accept string) *httptest.ResponseRecorder {
		w := httptest.NewRecorder()
		r := httptest.NewRequest(http.MethodGet, path, http.NoBody)
		r.Header.Set("Accept", accept)
		s.ServeHTTP(w, r)
		return w
	}
	for _, c := range []struct {
		path, accept string
		ready        error
		status       int
		body         string
	}{
		{"/healthz", "*/*", notReady, 200, `{"status":"ok","version":"v1"}`},
		{"/readyz", "*/*", nil, 200, `{"status":"ok","version":"v1"}`},
		{"/readyz", "*/*", notReady, 503, "not ready"},
		{"/api/projects", "application/json", nil, 503, "use one of those"},
		{"/ui/login", "text/html,*/*", nil, 503, "use one of those"},
	} {
		ready = c.ready
		w := ask(c.path, c.accept)
		if w.Code != c.status || !strings.Contains(w.Body.String(), c.body) || w.Header().Get("X-Content-Type-Options") != "nosniff" {
			t.Errorf("%s: %d %v %s, want %d", c.path, w.Code, w.Header(), w.Body, c.status)
		}
		html := strings.HasPrefix(w.Header().Get("Content-Type"), "text/plain")
		if html != strings.HasPrefix(c.accept, "text/html") {
			t.Errorf("%s: type %s", c.path, w.Header().Get("Content-Type"))
		}
		var object handlers.ErrorObject
		if c.status == 503 && !html && (json.Unmarshal(w.Body.Bytes(), &object) != nil || object.Code == "" || object.Status != 503) {
			t.Errorf("%s: %s is no error object", c.path, w.Body)
		}
	}
	if got := ask("/api/projects", "*/*").Header().Get("Retry-After"); got != "5" {
		t.Errorf("retry after %q", got)
	}
}

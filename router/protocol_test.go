package router

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"signalbox/broker"
	"signalbox/db"
	"signalbox/handlers"
	"signalbox/handlers/auth"
)

// newTable returns a router of the given rows, without authentication, and its log.
func newTable(t *testing.T, rows ...*route) (*router, *bytes.Buffer) {
	t.Helper()
	var log bytes.Buffer
	rt := &router{rows: rows, cfg: DefaultConfig(), now: time.Now, metrics: newMetrics("test"),
		log: slog.New(slog.NewJSONHandler(&log, &slog.HandlerOptions{Level: slog.LevelDebug}))}
	for _, row := range rows {
		row.Role, row.Tag, row.Summary = auth.Public, "T", "S"
		if row.Path == "" {
			row.Path = "/x"
		}
		if row.Method == "" {
			row.Method = http.MethodGet
		}
		if row.Status == 0 {
			row.Status = http.StatusOK
		}
	}
	must(t, rt.build())
	return rt, &log
}

func get(h http.Handler, method, target string) *http.Response {
	w := httptest.NewRecorder()
	h.ServeHTTP(w, httptest.NewRequest(method, target, nil))
	return w.Result()
}

func TestUnknownPaths_are_404_for_everybody(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	for _, path := range []string{"/api", "/api/projects/", "/api/Projects", "//api/projects", "/api/projects/x/../y",
		"/api/projects//brokers", "/api/projects/p/brokers/b%2Fc/clients", "/api/users/", "/metrics/", "/api/docs/", "/favicon.ico"} {
		for _, method := range []string{"GET", "POST", "OPTIONS", "HEAD", "BREW"} {
			resp := f.do(t, method, path, "", "")
			if resp.StatusCode != 404 || resp.Header.Get("Location") != "" {
				t.Errorf("%s %s: got %d", method, path, resp.StatusCode)
			}
		}
		wantError(t, f.do(t, "GET", path, "", ""), 404, handlers.CodeNotFound)
	}
}

func TestWrongMethod_is_405_with_Allow_on_every_path(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	for _, row := range f.router.rows {
		path := f.path(row.Path)
		for _, method := range []string{"PATCH", "BREW"} {
			resp := f.do(t, method, path, "", "")
			allow := strings.Split(resp.Header.Get("Allow"), ", ")
			wantError(t, resp, 405, handlers.CodeMethodNotAllowed)
			if !slices.Contains(allow, row.Method) || !slices.Contains(allow, "OPTIONS") || slices.Contains(allow, "GET") != slices.Contains(allow, "HEAD") {
				t.Errorf("%s: Allow is %v", path, allow)
			}
		}
	}
	for path, want := range map[string]string{
		"/api/users/admins":            "DELETE, GET, HEAD, OPTIONS, PUT",
		f.path(brokerPath):             "DELETE, GET, HEAD, OPTIONS, PUT",
		"/api/auth/login":              "OPTIONS, POST",
		"/healthz":                     "GET, HEAD, OPTIONS",
		f.path(clusterPath):            "DELETE, GET, HEAD, OPTIONS",
		"/api/projects/p/brokers/test": "DELETE, GET, HEAD, OPTIONS, POST, PUT",
	} {
		if got := f.do(t, "PATCH", path, "", "").Header.Get("Allow"); got != want {
			t.Errorf("%s: Allow is %q, want %q", path, got, want)
		}
	}
}

func TestWrongMethod_beside_a_shared_pattern(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	resp := f.do(t, "POST", f.path(brokerPath), f.tokens["admin"], "")
	wantError(t, resp, 405, handlers.CodeMethodNotAllowed)
	if got := resp.Header.Get("Allow"); got != "DELETE, GET, HEAD, OPTIONS, PUT" {
		t.Errorf("Allow is %q", got)
	}
}

func TestOptions_answers_Allow(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	for _, row := range f.router.rows {
		resp := f.do(t, "OPTIONS", f.path(row.Path), "", "")
		if body := readAll(t, resp); resp.StatusCode != 204 || body != "" || !strings.Contains(resp.Header.Get("Allow"), row.Method) {
			t.Errorf("%s: got %d, Allow %q, body %q", row.ID, resp.StatusCode, resp.Header.Get("Allow"), body)
		}
	}
}

func TestHead_answers_as_Get(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	must(t, f.Start(t.Context()))
	defer f.Close(t.Context()) //nolint:errcheck // the test is over
	// Its use is not recorded within the test, so that lists of tokens do not change.
	token := f.addToken(t, db.Token{ProjectID: f.project, Role: "viewer", Type: "unrestricted", LastUsedAt: time.Now()})
	for _, path := range []string{"/healthz", "/api/openapi.json", "/api/docs", "/api/projects", "/api/projects/" + f.project + "/tokens", "/api/auth/me", "/nothing"} {
		var got [2]*http.Response
		for i, method := range []string{"GET", "HEAD"} {
			r, err := http.NewRequestWithContext(t.Context(), method, f.URL()+path, nil)
			must(t, err)
			r.Header.Set("Authorization", "Bearer "+token)
			got[i], err = http.DefaultTransport.RoundTrip(r)
			must(t, err)
			body := readAll(t, got[i])
			if method == "HEAD" && body != "" {
				t.Errorf("%s: HEAD has a body", path)
			}
		}
		for _, h := range []string{"Content-Type", "X-Total-Count", "Cache-Control"} {
			if n := got[1].ContentLength; n >= 0 && n != got[0].ContentLength {
				t.Errorf("%s: HEAD promises %d bytes, GET sends %d", path, n, got[0].ContentLength)
			}
			if got[0].StatusCode != got[1].StatusCode || got[0].Header.Get(h) != got[1].Header.Get(h) {
				t.Errorf("%s: GET %d %q, HEAD %d %q", path, got[0].StatusCode, got[0].Header.Get(h), got[1].StatusCode, got[1].Header.Get(h))
			}
		}
	}
}

func TestRequestID_is_taken_over_or_made(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	for _, c := range []struct {
		given string
		taken bool
	}{{"9f3c-A_b.1", true}, {strings.Repeat("a", 64), true}, {strings.Repeat("a", 65), false}, {"a b", false}, {"", false}, {"ä", false}, {"a\tb", false}} {
		got := f.do(t, "GET", "/healthz", "", "", "X-Request-Id", c.given).Header.Get("X-Request-Id")
		if (got == c.given) != c.taken || !isRequestID(got) {
			t.Errorf("%q became %q", c.given, got)
		}
	}
}

func TestHeaders_stand_on_every_answer(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	for _, path := range []string{"/healthz", "/nothing", "/api/projects"} {
		resp := f.do(t, "GET", path, "", "")
		for header, want := range map[string]string{
			"X-Content-Type-Options": "nosniff", "Cache-Control": "no-store", "X-Frame-Options": "DENY",
			"Content-Security-Policy": "default-src 'none'; frame-ancestors 'none'",
		} {
			if got := resp.Header.Get(header); got != want {
				t.Errorf("%s: %s is %q, want %q", path, header, got, want)
			}
		}
	}
}

func TestPanic_is_500_with_the_request_id(t *testing.T) {
	t.Parallel()
	rt, log := newTable(t, &route{ID: "boom", Do: query(func(context.Context, *noParts) (Health, error) { panic("deliberate: secret state") })})
	resp := get(rt, "GET", "/x")
	id := resp.Header.Get("X-Request-Id")
	e := wantError(t, resp, 500, handlers.CodeInternalError)
	if e.Info["requestId"] != id || strings.Contains(fmt.Sprint(e), "secret") {
		t.Errorf("error is %+v, request id %s", e, id)
	}
	if !strings.Contains(log.String(), "secret state") || !strings.Contains(log.String(), id) || !strings.Contains(log.String(), "protocol_test.go") {
		t.Errorf("the log does not tell what happened:\n%s", log)
	}
	if !strings.Contains(log.String(), `"op":"boom","method":"GET","status":500`) {
		t.Errorf("no access line:\n%s", log)
	}
}

func TestPanic_after_the_header_breaks_the_connection_off(t *testing.T) {
	t.Parallel()
	abort := http.HandlerFunc(func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) })
	late := http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Write([]byte("half")) //nolint:errcheck // a recorder
		panic("deliberate: late")
	})
	for name, h := range map[string]http.Handler{"abort": abort, "late": late} {
		rt, log := newTable(t, &route{ID: name, Serve: h, Produces: "text/plain"})
		func() {
			defer func() {
				if v := recover(); v != http.ErrAbortHandler {
					t.Errorf("%s: recovered %v, want http.ErrAbortHandler", name, v)
				}
			}()
			get(rt, "GET", "/x")
		}()
		if !strings.Contains(log.String(), `"aborted":true`) {
			t.Errorf("%s: not in the access log:\n%s", name, log)
		}
	}
}

func TestInternalError_shows_no_cause(t *testing.T) {
	t.Parallel()
	rt, log := newTable(t, &route{ID: "x", Do: query(func(context.Context, *noParts) (Health, error) {
		return Health{}, fmt.Errorf("read row: %w", errors.New("disk on fire"))
	})})
	resp := get(rt, "GET", "/x")
	id := resp.Header.Get("X-Request-Id")
	e := wantError(t, resp, 500, handlers.CodeInternalError)
	if e.Info["requestId"] != id || strings.Contains(e.Message, "fire") {
		t.Errorf("error is %+v", e)
	}
	if n := strings.Count(log.String(), "disk on fire"); n != 1 {
		t.Errorf("the cause stands in the log %d times", n)
	}
}

// numbers is a list of n entries that fails after the entry failAt.
type numbers struct{ n, failAt int }

func (l numbers) TotalCount() int { return l.n }

func (l numbers) Each(yield func(any) error) error {
	for i := range l.n {
		if i == l.failAt {
			return errors.New("lost the thread")
		}
		if err := yield(map[string]int{"<number>": i}); err != nil {
			return err
		}
	}
	return nil
}

func (numbers) Item() any      { return map[string]int{} }
func (numbers) HasNames() bool { return false }

func listRouter(t *testing.T, l numbers) *router {
	t.Helper()
	rt, _ := newTable(t, &route{ID: "list", Do: query(func(context.Context, *noParts) (numbers, error) { return l, nil })})
	return rt
}

func TestList_is_an_array_with_its_total(t *testing.T) {
	t.Parallel()
	for _, n := range []int{0, 1, 3, 20000} {
		resp := get(listRouter(t, numbers{n, -1}), "GET", "/x")
		body := readAll(t, resp)
		var got []map[string]int
		if err := json.Unmarshal([]byte(body), &got); err != nil || got == nil || len(got) != n {
			t.Errorf("%d: %d entries, %v", n, len(got), err)
		}
		if total := resp.Header.Get("X-Total-Count"); total != fmt.Sprint(n) {
			t.Errorf("%d: X-Total-Count is %q", n, total)
		}
		if n > 0 && (got[n-1]["<number>"] != n-1 || !strings.Contains(body, `"<number>"`)) {
			t.Errorf("%d: the last entry is %v", n, got[n-1])
		}
		if strings.ContainsAny(body, "\n ") {
			t.Errorf("%d: blanks between the entries", n)
		}
	}
}

func TestList_that_fails_early_is_an_error(t *testing.T) {
	t.Parallel()
	resp := get(listRouter(t, numbers{100, 50}), "GET", "/x")
	if resp.Header.Get("X-Total-Count") != "" {
		t.Error("X-Total-Count stands on an error")
	}
	wantError(t, resp, 500, handlers.CodeInternalError)
}

func TestList_that_fails_late_is_broken_off(t *testing.T) {
	t.Parallel()
	srv := httptest.NewServer(listRouter(t, numbers{20000, 15000}))
	defer srv.Close()
	resp, err := srv.Client().Get(srv.URL + "/x")
	must(t, err)
	defer resp.Body.Close()
	if b, err := io.ReadAll(resp.Body); err == nil {
		t.Errorf("the answer seems whole: %d bytes", len(b))
	}
}

func TestBody_too_large_is_refused_at_the_limit(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	body := func(n int) string { return `{"name":"` + strings.Repeat("a", n-len(`{"name":""}`)) + `"}` }
	root := f.login(t)
	wantError(t, f.do(t, "POST", "/api/projects", root, body(usualBody+1)), 400, handlers.CodePayloadTooLarge)
	if resp := f.do(t, "POST", "/api/projects", root, body(usualBody)); resp.StatusCode != 200 {
		t.Errorf("a body of exactly the limit: got %d", resp.StatusCode)
	}
}

func TestImport_takes_a_larger_body(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	body := `{"x":"` + strings.Repeat("a", 3*usualBody) + `"}`
	wantError(t, f.do(t, "POST", f.path(brokerPath)+"/access/import", f.tokens["admin"], body), 503, handlers.CodeBrokerUnavailable)
}

func TestAccessLog_names_operation_and_caller_and_no_secret(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.login(t)
	f.do(t, "GET", f.path(brokerPath)+"/clients?username=hush", f.tokens["viewer"], "", "X-Request-Id", "r1")
	f.do(t, "POST", "/api/auth/login?email=hush", "", `{"email":"`+ownerEmail+`","password":"`+ownerPassword+`"}`)
	log := f.log.String()
	var line map[string]any
	for l := range strings.Lines(log) {
		if strings.Contains(l, `"request_id":"r1"`) && strings.Contains(l, `"msg":"request"`) {
			must(t, json.Unmarshal([]byte(l), &line))
		}
	}
	for key, want := range map[string]any{"op": "listClients", "status": 503.0, "project": f.project, "broker": f.broker, "level": "INFO"} {
		if line[key] != want {
			t.Errorf("%s is %v, want %v", key, line[key], want)
		}
	}
	if c, _ := line["caller"].(string); !strings.HasPrefix(c, "token:") {
		t.Errorf("caller is %q", c)
	}
	for _, secret := range []string{"hush", ownerPassword, f.tokens["viewer"], "sbx_"} {
		if strings.Contains(log, secret) {
			t.Errorf("%q stands in the log", secret)
		}
	}
}

func TestReadiness_shows_the_message_of_a_broker_only(t *testing.T) {
	t.Parallel()
	rt, log := newTable(t)
	rt.ready = func(context.Context) error { return errors.New("disk full at /var") }
	rt.rows = []*route{{ID: "ready", Method: "GET", Path: "/readyz", Role: auth.Public, Status: 200, Errors: []int{503}, Tag: "T", Summary: "S", Do: query(rt.getReadiness)}}
	must(t, rt.build())
	if e := wantError(t, get(rt, "GET", "/readyz"), 503, handlers.CodeInternalError); strings.Contains(e.Message, "disk") {
		t.Errorf("message is %q", e.Message)
	}
	if !strings.Contains(log.String(), "disk full") {
		t.Errorf("the log does not say why: %s", log)
	}
	rt.ready = func(context.Context) error {
		return errors.Join(errors.New("at /var"), &broker.Error{Kind: broker.Unavailable, Msg: "free some space"})
	}
	if e := wantError(t, get(rt, "GET", "/readyz"), 503, handlers.CodeInternalError); !strings.Contains(e.Message, "free some space") || strings.Contains(e.Message, "/var") {
		t.Errorf("message is %q", e.Message)
	}
	rt.ready = func(context.Context) error { return nil }
	if resp := get(rt, "GET", "/readyz"); resp.StatusCode != 200 {
		t.Errorf("ready: got %d", resp.StatusCode)
	}
}

func TestAnswers_show_angle_brackets_as_they_are(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	if body := readAll(t, f.do(t, "POST", "/api/projects", f.login(t), `{"name":"<a> & b"}`)); !strings.Contains(body, `"<a> & b"`) {
		t.Errorf("body is %s", body)
	}
}

func TestOwnOffences_do_not_repeat_those_of_the_tags(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	const body = `{"replayTopic":7,"streamname":"s"}`
	e := wantError(t, f.do(t, "PUT", f.path(brokerPath)+"/streams/replay", f.tokens["admin"], body), 400, handlers.CodeInvalidRequest)
	if list, _ := e.Info["errors"].([]any); len(list) != 1 {
		t.Errorf("errors are %v", e.Info["errors"])
	}
}

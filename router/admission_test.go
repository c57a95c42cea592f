package router

import (
	"cmp"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"signalbox/db"
	"signalbox/handlers"
	"signalbox/handlers/auth"
)

// forUsersOnly are the operations that make no sense for a project token.
var forUsersOnly = []string{"createProject", "logout", "changePassword", "takeToken", "getPreferences", "setPreferences",
	"updateMe", "listSessions", "endSession", "endOtherSessions"}

// lastRows are the operations that would break the others of a matrix.
var lastRows = []string{"deleteBroker", "logout"}

// mayCall reports whether a caller may call a row, specified a second time.
func mayCall(row *route, caller string) bool {
	needs := map[auth.Role]int{auth.SignedIn: 0, auth.Viewer: 1, auth.Editor: 2, auth.Admin: 3, auth.Root: 4}[row.Role]
	has := map[string]int{"viewer": 1, "editor": 2, "admin": 3, "root": 4, "restricted": 2}[caller]
	switch {
	case row.Role == auth.Public:
		return true
	case caller == "stranger", caller != "root" && slices.Contains(forUsersOnly, row.ID):
		return false
	case caller == "restricted" && strings.Contains(row.Path, "{projectId}") && !strings.Contains(row.Path, "{brokerId}"):
		return slices.Contains([]string{"listBrokers", "getProjectSettings", "getProject"}, row.ID)
	}
	return has >= needs
}

func TestMatrix(t *testing.T) {
	t.Parallel()
	for _, caller := range []string{"stranger", "viewer", "editor", "admin", "root", "restricted"} {
		t.Run(caller, func(t *testing.T) {
			t.Parallel()
			f := newFixture(t)
			token := f.tokens[caller]
			if caller == "root" {
				token = f.login(t)
			}
			rows := slices.SortedStableFunc(slices.Values(f.router.rows), func(a, b *route) int {
				return cmp.Compare(slices.Index(lastRows, a.ID), slices.Index(lastRows, b.ID))
			})
			for _, row := range rows {
				f.checkCaller(t, row, caller, token)
			}
		})
	}
}

func (f *fixture) checkCaller(t *testing.T, row *route, caller, token string) {
	t.Helper()
	resp := f.do(t, row.Method, f.path(row.Path), token, "")
	may := mayCall(row, caller)
	switch {
	case !may && caller == "stranger":
		wantError(t, resp, http.StatusUnauthorized, handlers.CodeUnauthorized)
		if resp.Header.Get("WWW-Authenticate") == "" {
			t.Errorf("%s: no WWW-Authenticate", row.ID)
		}
	case !may:
		wantError(t, resp, http.StatusForbidden, handlers.CodeForbidden)
	case resp.StatusCode == 401 || resp.StatusCode == 403 || resp.StatusCode == 500:
		t.Errorf("%s: %s may call it, got %d", row.ID, caller, resp.StatusCode)
	case resp.StatusCode != row.Status && !slices.Contains(row.promised, resp.StatusCode) && resp.StatusCode != 503:
		t.Errorf("%s: status %d is promised nowhere", row.ID, resp.StatusCode)
	}
}

func TestUnknownProject_is_404_before_anything_else_is_looked_at(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	root := f.login(t)
	for _, row := range f.router.rows {
		if !row.inProject() {
			continue
		}
		path := strings.Replace(row.Path, "{projectId}", newID(), 1)
		wantError(t, f.do(t, row.Method, f.path(path)+"?count=x", root, "{"), 404, handlers.CodeNotFound)
	}
}

func TestUnknownBroker_is_404_before_query_and_body(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	for _, row := range f.router.rows {
		if !row.inBroker() {
			continue
		}
		path := strings.Replace(row.Path, "{brokerId}", newID(), 1)
		wantError(t, f.do(t, row.Method, f.path(path)+"?count=x", f.tokens["admin"], "{"), 404, handlers.CodeNotFound)
	}
}

func TestMalformedJSON_is_400_on_every_row_with_a_body(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	root := f.login(t)
	cluster := db.Cluster{ID: newID(), ProjectID: f.project, Name: "plant", SyncMode: "full", CreatedAt: time.Now()}
	must(t, f.db.CreateCluster(t.Context(), cluster))
	n := 0
	for _, row := range f.router.rows {
		if row.plan == nil || row.plan.body == nil {
			continue
		}
		n++
		path := strings.Replace(row.Path, "/clusters/{clusterId}", "/clusters/"+cluster.ID, 1)
		e := wantError(t, f.do(t, row.Method, f.path(path), root, `{"a":`), 400, handlers.CodeInvalidRequest)
		if e.Info["errors"] == nil {
			t.Errorf("%s: info.errors is missing", row.ID)
		}
	}
	if n < 20 {
		t.Errorf("only %d rows have a body", n)
	}
}

func TestRestrictedToken_does_not_reach_another_broker(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	base := "/api/projects/" + f.project + "/brokers/"
	wantError(t, f.do(t, "GET", base+f.other, f.tokens["restricted"], ""), 403, handlers.CodeForbidden)
	wantError(t, f.do(t, "GET", base+newID(), f.tokens["restricted"], ""), 403, handlers.CodeForbidden)
	if resp := f.do(t, "GET", base+f.broker, f.tokens["restricted"], ""); resp.StatusCode != 200 {
		t.Errorf("its own broker: got %d", resp.StatusCode)
	}
}

func TestToken_of_another_project_is_403(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	now := time.Now()
	p := db.Project{ID: newID(), Name: "elsewhere", OwnerID: f.owner.ID, CreatedAt: now, UpdatedAt: now}
	must(t, f.db.CreateProject(t.Context(), p))
	wantError(t, f.do(t, "GET", "/api/projects/"+p.ID+"/brokers", f.tokens["admin"], ""), 403, handlers.CodeForbidden)
}

func TestViewerReadOnly_raises_writing_operations_to_editor(t *testing.T) {
	t.Parallel()
	f := newFixture(t, func(_ *Config, a *auth.Config) { a.ViewerReadOnly = true })
	clients := f.path(brokerPath) + "/clients"
	wantError(t, f.do(t, "POST", clients, f.tokens["viewer"], `{"username":"u"}`), 403, handlers.CodeForbidden)
	wantError(t, f.do(t, "POST", clients, f.tokens["editor"], `{"username":"u"}`), 503, handlers.CodeBrokerUnavailable)
	wantError(t, f.do(t, "GET", clients, f.tokens["viewer"], ""), 503, handlers.CodeBrokerUnavailable)
}

func TestAuthorization_header(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	good := f.tokens["viewer"]
	for _, c := range []struct {
		header string
		status int
	}{
		{"Bearer " + good, 200}, {"bearer " + good, 200}, {"Bearer  " + good, 200},
		{"Bearer", 401}, {"Bearer ", 401}, {"Basic " + good, 401}, {good, 401}, {"Bearer " + good + "x", 401},
		{"Bearer sbx_", 401}, {"Bearer " + strings.Repeat("x", 10000), 401},
	} {
		if resp := f.do(t, "GET", "/api/auth/me", "", "", "Authorization", c.header); resp.StatusCode != c.status {
			t.Errorf("%.40q: got %d, want %d", c.header, resp.StatusCode, c.status)
		}
	}
}

func TestCookie_needs_the_own_origin_for_changes(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	cookie := cookieName + "=" + f.login(t)
	const body = `{"name":"p"}`
	for _, c := range []struct {
		name   string
		method string
		header []string
		status int
	}{
		{"reading needs no origin", "GET", nil, 200},
		{"no origin", "POST", nil, 403},
		{"own origin", "POST", []string{"Origin", "http://example.com"}, 200},
		{"own origin behind a proxy that ends TLS", "POST", []string{"Origin", "https://example.com"}, 200},
		{"other host", "POST", []string{"Origin", "http://evil.example"}, 403},
		{"other port", "POST", []string{"Origin", "http://example.com:81"}, 403},
		{"opaque origin", "POST", []string{"Origin", "null"}, 403},
		{"same-origin", "POST", []string{"Sec-Fetch-Site", "same-origin"}, 200},
		{"same-site is not the same origin", "POST", []string{"Sec-Fetch-Site", "same-site"}, 403},
		{"cross-site", "POST", []string{"Sec-Fetch-Site", "cross-site"}, 403},
		{"headers that disagree", "POST", []string{"Sec-Fetch-Site", "same-origin", "Origin", "http://evil.example"}, 403},
		{"headers that disagree the other way", "POST", []string{"Sec-Fetch-Site", "cross-site", "Origin", "http://example.com"}, 403},
	} {
		resp := f.do(t, c.method, "/api/projects", "", body, append(c.header, "Cookie", cookie)...)
		if resp.StatusCode != c.status {
			t.Errorf("%s: got %d, want %d", c.name, resp.StatusCode, c.status)
		}
	}
	if resp := f.do(t, "POST", "/api/projects", "", body, "Cookie", cookieName+"=nonsense", "Sec-Fetch-Site", "same-origin"); resp.StatusCode != 401 {
		t.Errorf("a cookie that is not accepted: got %d", resp.StatusCode)
	}
}

func TestLogin_sets_the_cookie_and_logout_removes_it(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.login(t)
	const credentials = `{"email":"` + ownerEmail + `","password":"` + ownerPassword + `"}`
	resp := f.do(t, "POST", "/api/auth/login", "", credentials)
	if resp.StatusCode != 200 || len(resp.Cookies()) != 1 {
		t.Fatalf("got %d, cookies %v", resp.StatusCode, resp.Cookies())
	}
	c := resp.Cookies()[0]
	if c.Name != cookieName || !c.HttpOnly || c.SameSite != http.SameSiteStrictMode || c.Secure || c.Path != "/" || !c.Expires.After(time.Now()) {
		t.Errorf("cookie is %v", c)
	}
	out := f.do(t, "POST", "/api/auth/logout", "", "", "Cookie", c.Name+"="+c.Value, "Sec-Fetch-Site", "same-origin")
	if out.StatusCode != 204 || len(out.Cookies()) != 1 || out.Cookies()[0].MaxAge >= 0 || out.Cookies()[0].Value != "" {
		t.Errorf("log-out: got %d, cookies %v", out.StatusCode, out.Cookies())
	}
	wantError(t, f.do(t, "GET", "/api/auth/me", c.Value, ""), 401, handlers.CodeUnauthorized)
}

func TestLogin_from_another_site_is_refused(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	wantError(t, f.do(t, "POST", "/api/auth/login", "", `{}`, "Origin", "http://evil.example"), 403, handlers.CodeForbidden)
	wantError(t, f.do(t, "POST", "/api/auth/login", "", `{}`, "Sec-Fetch-Site", "cross-site"), 403, handlers.CodeForbidden)
	wantError(t, f.do(t, "POST", "/api/auth/login", "", `{}`), 400, handlers.CodeInvalidRequest)
}

func TestLogin_failures_of_one_address_are_slowed_down(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	for range 20 {
		resp := f.do(t, "POST", "/api/auth/login", "", `{"email":"x@example.org","password":"y"}`, "X-Forwarded-For", "203.0.113.9")
		if resp.StatusCode == 429 {
			wantError(t, resp, 429, handlers.CodeTooManyAttempts)
			if resp.Header.Get("Retry-After") == "" {
				t.Error("no Retry-After")
			}
			return
		}
	}
	t.Error("20 failures were not slowed down")
}

func TestMetrics_are_for_root_and_for_the_scrape_token(t *testing.T) {
	t.Parallel()
	f := newFixture(t, func(c *Config, _ *auth.Config) { c.MetricsToken = "scrape me" })
	wantError(t, f.do(t, "GET", "/metrics", "", ""), 401, handlers.CodeUnauthorized)
	wantError(t, f.do(t, "GET", "/metrics", "scrape", ""), 401, handlers.CodeUnauthorized)
	wantError(t, f.do(t, "GET", "/metrics", f.tokens["admin"], ""), 403, handlers.CodeForbidden)
	f.do(t, "GET", "/nothing", "", "")
	for _, token := range []string{"scrape me", f.login(t)} {
		resp := f.do(t, "GET", "/metrics", token, "")
		body := readAll(t, resp)
		for _, want := range []string{`signalbox_http_requests_total{operation="getMetrics",status="401"} 2`, `signalbox_info{version="test"} 1`, `signalbox_http_requests_total{operation="none",status="404"} 1`, "go_goroutines", `signalbox_brokers{connected="false"} 2`} {
			if !strings.Contains(body, want) {
				t.Errorf("%d: %q is missing", resp.StatusCode, want)
			}
		}
	}
	wantError(t, f.do(t, "GET", "/api/auth/me", "scrape me", ""), 401, handlers.CodeUnauthorized)
}

func TestMetrics_without_a_configured_token_are_closed_to_an_empty_one(t *testing.T) {
	t.Parallel()
	rt := &router{}
	r := httptest.NewRequest("GET", "/metrics", nil)
	r.Header.Set("Authorization", "Bearer ")
	if rt.isScraper(r) {
		t.Error("an empty token is accepted")
	}
}

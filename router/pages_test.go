package router

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// browser is a browser in front of the console: it sends the session's cookie and the
// headers of its own site, and follows no redirect.
type browser struct {
	f      *fixture
	cookie string
}

func (b *browser) request(t *testing.T, method, path, form string, header ...string) *http.Response {
	t.Helper()
	r := httptest.NewRequest(method, path, strings.NewReader(form))
	r.Header.Set("Sec-Fetch-Site", "same-origin")
	if method == http.MethodPost {
		r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
		r.Header.Set("Origin", "http://example.com")
	}
	if b.cookie != "" {
		r.AddCookie(&http.Cookie{Name: cookieName, Value: b.cookie})
	}
	for i := 0; i < len(header); i += 2 {
		r.Header.Set(header[i], header[i+1])
	}
	w := httptest.NewRecorder()
	b.f.router.ServeHTTP(w, r)
	resp := w.Result()
	for _, c := range resp.Cookies() {
		if c.Name == cookieName {
			b.cookie = c.Value
		}
	}
	return resp
}

// page returns the text of a page, and fails unless it has the status.
func (b *browser) page(t *testing.T, path string, status int) string {
	t.Helper()
	resp := b.request(t, http.MethodGet, path, "")
	text := readAll(t, resp)
	if resp.StatusCode != status {
		t.Fatalf("GET %s: status %d, want %d\n%s", path, resp.StatusCode, status, text)
	}
	return text
}

// post sends a form and returns where it leads.
func (b *browser) post(t *testing.T, path string, form url.Values) string {
	t.Helper()
	resp := b.request(t, http.MethodPost, path, form.Encode())
	if resp.StatusCode != http.StatusSeeOther {
		t.Fatalf("POST %s: status %d, want 303\n%s", path, resp.StatusCode, readAll(t, resp))
	}
	return resp.Header.Get("Location")
}

// signedIn returns a browser that has signed in as the owner, through the page.
func (f *fixture) signedIn(t *testing.T) *browser {
	t.Helper()
	f.login(t)
	b := &browser{f: f}
	if to := b.post(t, "/ui/login", url.Values{"email": {ownerEmail}, "password": {ownerPassword}}); to != "./start" {
		t.Fatalf("the log-in leads to %q", to)
	}
	return b
}

func TestConsole_leads_to_the_login(t *testing.T) {
	t.Parallel()
	b := &browser{f: newFixture(t)}
	for path, want := range map[string]string{
		"/":                      "ui",
		"/ui":                    "ui/login",
		"/ui/users":              "./login?next=users",
		"/ui/p/1/tokens/2/owner": "../../../../login?next=p%2F1%2Ftokens%2F2%2Fowner",
		"/ui/p/1/brokers?x=%26":  "../../login?next=p%2F1%2Fbrokers%3Fx%3D%2526",
	} {
		resp := b.request(t, http.MethodGet, path, "")
		if got := resp.Header.Get("Location"); got != want || resp.StatusCode/100 != 3 {
			t.Errorf("GET %s: %d to %q, want %q", path, resp.StatusCode, got, want)
		}
	}
	if text := b.page(t, "/ui/login", 200); !strings.Contains(text, `name="password"`) {
		t.Errorf("the log-in has no field for the password:\n%s", text)
	}
}

func TestConsole_login(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.login(t)
	b := &browser{f: f}
	wrong := b.request(t, http.MethodPost, "/ui/login", "email="+ownerEmail+"&password=wrong")
	if text := readAll(t, wrong); wrong.StatusCode != 401 || !strings.Contains(text, "email or password is wrong") || strings.Contains(text, `value="wrong"`) {
		t.Errorf("a wrong password: %d\n%s", wrong.StatusCode, text)
	}
	for next, want := range map[string]string{"users": "./users", "//evil.example": "./start", "https://evil.example": "./start", "/x": "./start", "a/../../b": "./start", `\evil`: "./start"} {
		if to := b.post(t, "/ui/login?"+url.Values{"next": {next}}.Encode(), url.Values{"email": {ownerEmail}, "password": {ownerPassword}}); to != want {
			t.Errorf("next=%s leads to %q, want %q", next, to, want)
		}
	}
	if text := b.page(t, "/ui/home", 200); !strings.Contains(text, "plant") || !strings.Contains(text, `/overview">one</a>`) {
		t.Errorf("home lacks the project or its broker:\n%s", text)
	}
	b.post(t, "/ui/logout", nil)
	if b.cookie != "" {
		t.Error("the cookie is left after the log-out")
	}
}

func TestConsole_refuses_other_sites(t *testing.T) {
	t.Parallel()
	b := newFixture(t).signedIn(t)
	resp := b.request(t, http.MethodPost, "/ui/projects/new", "name=of-another-site", "Origin", "http://evil.example", "Sec-Fetch-Site", "cross-site")
	if resp.StatusCode != http.StatusForbidden {
		t.Errorf("a form of another site: %d", resp.StatusCode)
	}
	if text := b.page(t, "/ui/projects", 200); strings.Contains(text, "of-another-site") {
		t.Error("it created a project")
	}
	alone := &browser{f: b.f}
	link := alone.request(t, http.MethodGet, "/ui/projects", "", "Sec-Fetch-Site", "cross-site", "Sec-Fetch-Mode", "navigate")
	if link.StatusCode != 200 || link.Header.Get("Refresh") != "0" {
		t.Errorf("a link of another site: %d, Refresh %q", link.StatusCode, link.Header.Get("Refresh"))
	}
}

// TestConsole_bounds_forms_without_session sends more than the form of the log-in can have.
func TestConsole_bounds_forms_without_session(t *testing.T) {
	t.Parallel()
	b := &browser{f: newFixture(t)}
	for _, path := range []string{"/ui/login", "/ui/nothing"} {
		resp := b.request(t, http.MethodPost, path, "email="+strings.Repeat("a", 1<<20))
		if text := readAll(t, resp); resp.StatusCode != http.StatusBadRequest && resp.StatusCode != http.StatusNotFound || strings.Contains(text, "aaaa") {
			t.Errorf("POST %s of 1 MiB: %d", path, resp.StatusCode)
		}
	}
}

func TestConsole_headers(t *testing.T) {
	t.Parallel()
	b := newFixture(t).signedIn(t)
	resp := b.request(t, http.MethodGet, "/ui/home", "")
	for _, directive := range []string{"default-src 'none'", "require-trusted-types-for 'script'", "frame-ancestors 'none'"} {
		if !strings.Contains(resp.Header.Get("Content-Security-Policy"), directive) {
			t.Errorf("the policy lacks %s", directive)
		}
	}
	if got := resp.Header.Get("Cache-Control"); got != "no-store" {
		t.Errorf("pages are kept: %s", got)
	}
	text := readAll(t, resp)
	_, after, _ := strings.Cut(text, `href="./static/`)
	sheet, _, _ := strings.Cut(after, `"`)
	asset := b.request(t, http.MethodGet, "/ui/static/"+sheet, "")
	if asset.StatusCode != 200 || !strings.Contains(asset.Header.Get("Cache-Control"), "immutable") || asset.Header.Get("Content-Type") != "text/css; charset=utf-8" {
		t.Errorf("style sheet %q: %d %v", sheet, asset.StatusCode, asset.Header)
	}
	if missing := b.request(t, http.MethodGet, "/ui/static/x/../../etc/passwd", ""); missing.StatusCode != 404 {
		t.Errorf("a file that does not exist: %d", missing.StatusCode)
	}
	if text := b.page(t, "/ui/nothing/here", 404); !strings.Contains(text, "no page at this address") {
		t.Errorf("an unknown page:\n%s", text)
	}
}

// TestConsole_projects goes through the pages of projects, members and tokens.
func TestConsole_projects(t *testing.T) {
	t.Parallel()
	b := newFixture(t).signedIn(t)
	hostile := `<script>alert(1)</script>"'` + "\u202e\x01"
	b.post(t, "/ui/projects/new", url.Values{"name": {hostile}, "description": {"d"}})
	list := b.page(t, "/ui/projects", 200)
	if strings.Contains(list, "<script>alert") || strings.ContainsAny(list, "\u202e\x01") || !strings.Contains(list, "&lt;script&gt;alert(1)") {
		t.Errorf("a hostile name is not shown as text:\n%s", list)
	}
	project := "/ui/p/" + b.f.project
	if empty := b.request(t, http.MethodPost, "/ui/projects/new", "name="); empty.StatusCode != 400 || !strings.Contains(readAll(t, empty), `aria-invalid="true"`) {
		t.Error("an empty name is not named at its field")
	}
	made := b.request(t, http.MethodPost, project+"/tokens/new", url.Values{"name": {"dashboard"}, "role": {"viewer"}, "type": {"unrestricted"}}.Encode())
	text := readAll(t, made)
	_, after, _ := strings.Cut(text, `<code id="token">`)
	token, _, _ := strings.Cut(after, "<")
	if resp := b.f.do(t, "GET", "/api/projects/"+b.f.project+"/brokers", token, ""); resp.StatusCode != 200 {
		t.Errorf("the token that the page shows: %d\n%s", resp.StatusCode, text)
	}
	restricted := url.Values{"name": {"one"}, "role": {"viewer"}, "type": {"restricted"}}
	if text := readAll(t, b.request(t, http.MethodPost, project+"/tokens/new", restricted.Encode())); !strings.Contains(text, `value="`+b.f.other+`" aria-invalid="true"><label for="f-brokers-1">two<`) {
		t.Errorf("the brokers are not chosen by their names:\n%s", text)
	}
	restricted["brokers"] = []string{b.f.other, b.f.broker}
	text = readAll(t, b.request(t, http.MethodPost, project+"/tokens/new", restricted.Encode()))
	_, after, _ = strings.Cut(text, `<code id="token">`)
	both, _, _ := strings.Cut(after, "<")
	if resp := b.f.do(t, "GET", "/api/projects/"+b.f.project+"/brokers/"+b.f.other, both, ""); resp.StatusCode != 200 {
		t.Errorf("the token for both brokers: %d\n%s", resp.StatusCode, text)
	}
	if text := b.page(t, project+"/tokens", 200); !strings.Contains(text, "dashboard") || strings.Contains(text, token) {
		t.Errorf("the list of tokens:\n%s", text)
	}
	if text := b.page(t, project+"/members", 200); !strings.Contains(text, ownerEmail) {
		t.Errorf("the list of members:\n%s", text)
	}
	wrong := b.request(t, http.MethodPost, project+"/delete", "confirm=other")
	if wrong.StatusCode != 400 {
		t.Errorf("deleting a project with another name typed: %d", wrong.StatusCode)
	}
	b.post(t, project+"/settings", url.Values{"name": {"renamed"}, "description": {""}})
	if text := b.page(t, project+"/brokers", 200); !strings.Contains(text, "renamed") || !strings.Contains(text, ">two<") {
		t.Errorf("the project after it was renamed:\n%s", text)
	}
}

// statusWithoutObject are the ends of the paths of pages about one object that the query
// names, by the status without it: the query lacks it, the object does not exist, and the
// broker, which is away, is asked for it.
var statusWithoutObject = map[int][]string{
	http.StatusBadRequest: {"/streams/detail", "/streams/edit", "/denials/allow", "/connection/delete", "/session", "/session/disconnect", "/session/end", "/session/subscribe"},
	http.StatusNotFound: {"/revoke", "/owner", "/leave", "/leader", "/drain", "clusters/{clusterId}", "{clusterId}/delete", "/letters", "/letters/delete", "/jobs/{jobId}", "/client", "/clients/edit", "/clients/password", "/clients/delete", "/clients/remove",
		"/group", "/groups/edit", "/groups/delete", "/groups/remove", "/role", "/roles/edit", "/roles/delete"},
	http.StatusServiceUnavailable: {"/sessions/matching", "/config", "/import/export", "/retained/message", "/retained/delete", "/retained/delete-matching"},
}

// TestConsole_pages requests every page of the table that needs no further parameter, and
// as a fragment.
func TestConsole_pages(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	b := f.signedIn(t)
	c, err := f.router.newConsole()
	must(t, err)
	for _, row := range c.Paths() {
		path := f.path(row)
		if strings.Contains(path, "{") || path == "/ui" || path == "/ui/start" || path == "/ui/login" || path == "/ui/logout" {
			continue
		}
		full := b.request(t, http.MethodGet, path, "")
		text := readAll(t, full)
		want := http.StatusOK
		for status, names := range statusWithoutObject {
			if slices.ContainsFunc(names, func(name string) bool { return strings.HasSuffix(row, name) }) {
				want = status
			}
		}
		switch {
		case full.StatusCode != want:
			t.Errorf("GET %s: status %d, want %d\n%s", path, full.StatusCode, want, text)
		case !strings.Contains(text, "<main") || !strings.HasSuffix(strings.TrimSpace(text), "</html>"):
			t.Errorf("GET %s is not whole:\n%s", path, text)
		case strings.Count(text, "<h1") != 1:
			t.Errorf("GET %s has %d headings of the first level", path, strings.Count(text, "<h1"))
		}
		part := b.request(t, http.MethodGet, path, "", "X-Fragment", "content")
		if got := readAll(t, part); strings.Contains(got, "<html") || got == "" {
			t.Errorf("GET %s as a fragment:\n%s", path, got)
		}
	}
	resp := b.request(t, http.MethodGet, "/ui/home", "", "Accept-Encoding", "gzip")
	if resp.Header.Get("Content-Encoding") != "gzip" {
		t.Error("a page is not compressed")
	}
	_, err = io.Copy(io.Discard, resp.Body)
	must(t, err)
}

// TestConsole_covered_rows calls operations with the name of another row's literal as a
// parameter: the page must not perform that row's operation.
func TestConsole_covered_rows(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	b := f.signedIn(t)
	tried := 0
	for _, row := range f.router.rows {
		for _, other := range f.router.rows {
			params, ok := row.paramsOf(other)
			if !ok {
				continue
			}
			tried++
			r := httptest.NewRequest(http.MethodGet, "/ui/home", nil)
			r.AddCookie(&http.Cookie{Name: cookieName, Value: b.cookie})
			if res := f.router.perform(r, row.ID, params, "", nil); res.Status != http.StatusNotFound {
				t.Errorf("%s with the path of %s: %d", row.ID, other.ID, res.Status)
			}
		}
	}
	if tried == 0 {
		t.Error("no row covers another one: the test tests nothing")
	}
}

// paramsOf returns the parameters with which the row has the path of another one that has
// more literals.
func (row *route) paramsOf(other *route) (map[string]string, bool) {
	if row.Method != other.Method || len(row.segments) != len(other.segments) || other.literals() <= row.literals() {
		return nil, false
	}
	params := map[string]string{}
	for i, s := range row.segments {
		name, isParam := strings.CutPrefix(s, ":")
		switch {
		case isParam:
			params[name] = strings.TrimPrefix(other.segments[i], ":")
		case s != other.segments[i]:
			return nil, false
		}
	}
	return params, true
}

// withoutPage are the operations that no page calls, each with the reason.
var withoutPage = map[string]string{
	"getHealth":        "for programs that watch the process",
	"getReadiness":     "for programs that watch the service",
	"getOpenAPI":       "a document for programs",
	"getSiteSchema":    "a document for programs",
	"getDocs":          "a page of its own",
	"getDocsAsset":     "a part of that page",
	"getManual":        "a page of its own, to which every page links",
	"getManualPage":    "as above",
	"exportAudit":      "the audit log of the service links to it",
	"downloadBackup":   "the page of backups links to it",
	"getSupportBundle": "the page of the system links to it",
	"getLogLevel":      "for who reads the log, at the command line",
	"setLogLevel":      "as above; it ends by itself after minutes",
	"getMetrics":       "for Prometheus",
	"search":           "called by the script of the palette",
	"streamEvents":     "called by the script of the overview",
	"listenMessages":   "called by the script of the page that publishes",
}

// TestConsole_calls_every_operation checks that everything that the API can do can be
// done in the console.
func TestConsole_calls_every_operation(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	c, err := f.router.newConsole()
	must(t, err)
	called, named := c.Calls(), f.operationsInConsole(t)
	for operation := range called {
		if !named[operation] {
			t.Errorf("a page declares %s, which no page calls", operation)
		}
	}
	for operation, inCall := range named {
		if inCall && !called[operation] {
			t.Errorf("a page calls %s, which none declares", operation)
		}
	}
	for _, row := range f.router.rows {
		if _, excepted := withoutPage[row.ID]; excepted == called[row.ID] {
			t.Errorf("%s: called by a page: %v, excepted: %v", row.ID, called[row.ID], excepted)
		}
	}
}

// operationsInConsole returns the operations that the code of the console names outside
// of the declarations of pages, and whether one does so in a call of an operation.
func (f *fixture) operationsInConsole(t *testing.T) map[string]bool {
	t.Helper()
	files, err := filepath.Glob("console/*.go")
	must(t, err)
	named := map[string]bool{}
	for _, name := range files {
		if strings.HasSuffix(name, "_test.go") {
			continue
		}
		file, err := parser.ParseFile(token.NewFileSet(), name, nil, 0)
		must(t, err)
		ast.Inspect(file, func(n ast.Node) bool {
			switch n := n.(type) {
			case *ast.KeyValueExpr:
				key, ok := n.Key.(*ast.Ident)
				return !ok || key.Name != "calls"
			case *ast.CallExpr:
				for _, arg := range n.Args {
					if id := literal(arg); f.router.rowOf(id) != nil && isOperationCall(n.Fun) {
						named[id] = true
					}
				}
			case *ast.BasicLit:
				if id := literal(n); f.router.rowOf(id) != nil && !named[id] {
					named[id] = false
				}
			}
			return true
		})
	}
	return named
}

// literal returns the value of a string literal, otherwise "".
func literal(e ast.Node) string {
	if l, ok := e.(*ast.BasicLit); ok && l.Kind == token.STRING {
		text, _ := strconv.Unquote(l.Value)
		return text
	}
	return ""
}

// isOperationCall reports whether a function performs the operation that it is given.
func isOperationCall(fun ast.Expr) bool {
	switch fun := fun.(type) {
	case *ast.SelectorExpr:
		return slices.Contains([]string{"get", "list", "do", "perform", "fetch"}, fun.Sel.Name)
	case *ast.Ident:
		return fun.Name == "load" || fun.Name == "loadWith"
	}
	return false
}

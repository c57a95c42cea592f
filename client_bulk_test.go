package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"signalbox/router/apitest"
	"signalbox/scripts/suite"
)

// lines returns the lines of a file with clients.
func lines(begin, end int) string {
	var b strings.Builder
	for i := begin; i < end; i++ {
		fmt.Fprintf(&b, "{\"username\":\"c%04d\"}\n", i)
	}
	return b.String()
}

// TestBulk creates many clients, some of which exist.
func TestBulk(t *testing.T) {
	t.Parallel()
	u := newTerminal(t)
	u.done("role", "create", "sensor")
	file := u.file("clients.jsonl", lines(0, 150))
	got := u.done("client", "create", "-f", file, "--dry-run")
	if strings.Count(got, " valid ") != 150 || u.done("client", "list", "-o", "name") != "admin\n" {
		t.Errorf("dry run: %.300s", got)
	}
	got = u.done("client", "create", "-f", file, "--role", "sensor")
	if strings.Count(got, " created ") != 150 || !strings.HasPrefix(got, "1       created  c0000\n") {
		t.Errorf("created: %.300s", got)
	}
	part := u.run("client", "list", "-o", "name")
	if strings.Count(part.out, "\n") != 100 || part.errors != "signalbox: 100 of 151 entries; --all prints all\n" {
		t.Errorf("a page: %.300s, %s", part.out, part.errors)
	}
	for _, format := range []string{"name", "table", "json"} {
		all := u.run("client", "list", "--all", "-o", format)
		if strings.Count(all.out, "c0") != 150 || all.errors != "" || all.code != 0 {
			t.Errorf("all as %s: %d, %s", format, strings.Count(all.out, "c0"), all.errors)
		}
	}
	if got := u.done("client", "list", "--columns", "roles", "--no-header", "--filter-value", "c0077"); got != "sensor\n" {
		t.Errorf("the flag was not applied: %q", got)
	}
	again := u.file("more.ndjson", lines(148, 152))
	u.wantBulk(again, 5, "failed", "1 failed") // the first line fails: nothing was done
	u.wantBulk(again, 8, "created", "2 done, 2 failed", "--continue")
	failures := func() string {
		return u.done("audit", "list", "--code", "ALREADY_EXISTS", "--columns", "seq", "--no-header")
	}
	before := failures()
	u.wantBulk(u.file("rest.jsonl", lines(150, 154)), 0, "exists", "4 done, 0 failed", "--skip-existing", "-o", "jsonl")
	if after := failures(); after != before || before == "" {
		t.Errorf("objects that are known to exist were sent: failures %q, then %q", before, after)
	}
	users := u.file("users.jsonl", `{"email":"`+apitest.RootEmail+`","password":"long-enough-1"}`+"\n")
	if got := u.done("user", "create", "--skip-existing", "-f", users); !strings.HasPrefix(got, "1       exists ") {
		t.Errorf("of a kind without a list of names: %s", got)
	}
}

func (u *terminal) wantBulk(file string, code int, out, errors string, more ...string) {
	u.t.Helper()
	got := u.run(append([]string{"client", "create", "-f", file}, more...)...)
	if got.code != code || !strings.Contains(got.out, out) || !strings.Contains(got.errors, errors) {
		u.t.Errorf("%s %q: %+v", file, more, got)
	}
}

// together is a proxy of a service. It holds requests to create a client, but the first, until a
// number of them have come.
type together struct {
	t     *testing.T
	next  http.Handler
	all   chan struct{} // closed when they have come
	mu    sync.Mutex
	under map[string]bool // the names of those that are under way
	came  int
}

const sentTogether = 3

// ServeHTTP passes a request on.
func (g *together) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.Method != http.MethodPost {
		g.next.ServeHTTP(w, r)
		return
	}
	text, err := io.ReadAll(r.Body)
	r.Body = io.NopCloser(bytes.NewReader(text))
	var c struct{ Username string }
	if err := errors.Join(err, json.Unmarshal(text, &c)); err != nil {
		g.t.Error(err)
	}
	g.begin(c.Username)
	g.next.ServeHTTP(w, r)
	g.mu.Lock()
	defer g.mu.Unlock()
	delete(g.under, c.Username)
}

func (g *together) begin(name string) {
	g.mu.Lock()
	if g.under[name] || len(g.under) >= sentTogether || g.came == 1 && g.under["first"] {
		g.t.Errorf("%s is sent beside %v", name, g.under)
	}
	g.under[name] = true
	if g.came++; g.came == 1+sentTogether {
		close(g.all)
	}
	g.mu.Unlock()
	if name == "first" {
		return
	}
	select {
	case <-g.all:
	case <-time.After(suite.HangLimit):
		g.t.Errorf("%s is sent alone", name)
	}
}

// TestBulk_sends_several sends some lines at the same time, but the first alone, and no two with one name.
// Their results are in the order of the lines.
func TestBulk_sends_several(t *testing.T) {
	t.Parallel()
	u := newTerminal(t)
	target, err := url.Parse(u.api.URL)
	must(t, err)
	proxy := httptest.NewServer(&together{t: t, next: httputil.NewSingleHostReverseProxy(target), all: make(chan struct{}), under: map[string]bool{}})
	defer proxy.Close()
	names := append([]string{"first", "a", "b", "c", "twin", "twin", "d", "twin", "e"}, strings.Fields(strings.Repeat("first ", 9))...)
	var text, want strings.Builder
	seen := map[string]bool{}
	for i, name := range names {
		fmt.Fprintf(&text, "{\"username\":%q,\"textname\":\"line %d\"}\n", name, i+1)
		fmt.Fprintf(&want, "%d %s %s\n", i+1, map[bool]string{false: "created", true: "failed"}[seen[name]], name)
		seen[name] = true
	}
	at := []string{"--server", proxy.URL, "--token-file", filepath.Join(u.dir, "token"), "--broker", "embedded"}
	got := u.run(append([]string{"client", "create", "-f", u.file("clients.jsonl", text.String()), "--parallel", strconv.Itoa(sentTogether), "--continue"}, at...)...)
	var out strings.Builder
	for line := range strings.Lines(got.out) {
		fmt.Fprintln(&out, strings.Join(strings.Fields(line)[:3], " "))
	}
	if diff := cmp.Diff(want.String(), out.String()); diff != "" || got.code != 8 {
		t.Errorf("exit code %d, %s, results (-want +got):\n%s", got.code, got.errors, diff)
	}
	if got := u.done("client", "list", "--filter-value", "twin", "--columns", "textname", "--no-header"); got != "line 5\n" {
		t.Errorf("of two lines with one name, %q was created", got)
	}
}

// TestBulk_refuses names the line that is not valid.
func TestBulk_refuses(t *testing.T) {
	t.Parallel()
	u := newTerminal(t)
	for text, want := range map[string]string{
		"{\"username\":\"a\"}\n{\n":                            "2       failed",
		"{\"username\":\"b\"}\n{\"user\":\"x\"}\n":             "USERNAME is missing",
		"{\"username\":\"c\"}\n{\"username\":\"d\",\"x\":1}\n": `there is no member "x"`,
		"{\"username\":\"e\"}\n[]\n":                           "must be an object",
	} {
		u.wantBulk(u.file("clients.jsonl", text), 8, want, "1 done, 1 failed", "--dry-run")
	}
	u.refused(2, "give it with -f", "client", "create", "x", "--continue")
	u.refused(2, "from 1 to 64", "client", "create", "-f", u.file("clients.jsonl", lines(0, 2)), "--parallel", "65")
	u.refused(2, "USERNAME is not for a file", "client", "create", "x", "-f", u.file("clients.jsonl", lines(0, 2)))
}

// TestBulk_is_resumed interrupts a bulk command and repeats it.
func TestBulk_is_resumed(t *testing.T) {
	t.Parallel()
	u := newTerminal(t)
	ctx, interrupt := context.WithCancel(t.Context())
	u.stdin = strings.NewReader(lines(0, 40))
	out := &interruptingWriter{after: 10, interrupt: interrupt}
	var errs strings.Builder
	if code := run(ctx, []string{"client", "create", "-f", "-"}, u.env, u.stdin, out, &errs); code != 130 || !strings.Contains(errs.String(), "--skip-existing") {
		t.Fatalf("exit code %d: %s", code, errs.String())
	}
	u.stdin = strings.NewReader(lines(0, 40))
	got := u.run("client", "create", "-f", "-", "--skip-existing")
	if got.code != 0 || strings.Count(got.out, " exists ") < 10 || strings.Count(got.out, " created ") < 20 || !strings.Contains(got.errors, "40 done, 0 failed") {
		t.Errorf("resumed: %+v", got)
	}
}

// interruptingWriter interrupts its command after a number of lines.
type interruptingWriter struct {
	after     int
	interrupt func()
}

// Write counts a line.
func (w *interruptingWriter) Write(b []byte) (int, error) {
	if w.after--; w.after == 0 {
		w.interrupt()
	}
	return len(b), nil
}

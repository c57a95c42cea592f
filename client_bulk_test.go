package main

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"signalbox/router/apitest"
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

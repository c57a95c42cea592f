package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"signalbox/router/apitest"
	"signalbox/scripts/suite"
)

// TestClientExitCodes provokes each exit code but those of bulk commands and interrupts.
func TestClientExitCodes(t *testing.T) {
	t.Parallel()
	u := newTerminal(t)
	u.done("client", "create", "pump")
	u.done("broker", "create", "dead", "--url", "mqtt://127.0.0.1:1")
	foreign := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusTeapot) }))
	defer foreign.Close()
	lost := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) }))
	defer lost.Close()
	in := []string{"--broker", "embedded"}
	for _, c := range []struct {
		code  int
		words string
		args  []string
	}{
		{1, "does not answer as signalbox does", []string{"service", "health", "--server", foreign.URL}},
		{2, "--nothing", []string{"client", "list", "--nothing"}},
		{2, "client create expects USERNAME; see", append([]string{"client", "create"}, in...)},
		{2, "(did you mean list?)", []string{"client", "lst"}},
		{2, "(did you mean client?)", []string{"clien", "list"}},
		{2, "--url is required", []string{"broker", "create", "x"}},
		{2, "--output: must be one of table", append([]string{"client", "list", "-o", "xml"}, in...)},
		{2, "there are: username", append([]string{"client", "list", "--columns", "colour"}, in...)},
		{2, "INVALID_REQUEST", append([]string{"client", "list", "--offset", "-1"}, in...)},
		{2, "must be a number", append([]string{"client", "list", "--offset", "x"}, in...)},
		{2, "--broker is required: embedded, dead", []string{"client", "list"}},
		{2, "give --yes", append([]string{"client", "delete", "pump"}, in...)},
		{2, "secret must not be an argument", append([]string{"client", "create", "x", "--set", "password=x"}, in...)},
		{2, "--password", append([]string{"client", "create", "x", "--password", "x"}, in...)},
		{2, "is not the URL", []string{"client", "list", "--server", "ftp://x"}},
		{2, "unknown flag: --http.listen", []string{"client", "list", "--http.listen", "127.0.0.1:1"}},
		{2, "unknown flag: --config", []string{"client", "list", "--config", "x"}},
		{3, "NOT_FOUND", append([]string{"client", "update", "nobody", "--textname", "x"}, in...)},
		{3, `no broker "nothing"`, []string{"client", "list", "--broker", "nothing"}},
		{3, `no context "nothing"`, []string{"client", "list", "--context", "nothing"}},
		{4, "UNAUTHORIZED", []string{"client", "list", "--server", u.api.URL}},
		{4, "FORBIDDEN", []string{"user", "list", "--token-file", u.file("viewer", u.api.TokenText("viewer"))}},
		{5, "ALREADY_EXISTS", append([]string{"client", "create", "pump"}, in...)},
		{5, "LAST_ADMIN", []string{"admin", "remove", apitest.RootEmail, "--yes"}},
		{6, "BROKER_UNAVAILABLE", []string{"client", "list", "--broker", "dead"}},
		{6, "cannot be reached", []string{"client", "list", "--server", "http://127.0.0.1:1"}},
		{7, "before the response", []string{"project", "create", "x", "--server", lost.URL}},
	} {
		u.refused(c.code, c.words, c.args...)
	}
}

// newSlowService returns the URL of a service that does not respond during the test.
func newSlowService(t *testing.T) string {
	t.Helper()
	end := make(chan struct{})
	slow := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { <-end }))
	t.Cleanup(func() { close(end); slow.Close() })
	return slow.URL
}

// TestClientErrors prints the request id, and with -o json the error object.
func TestClientErrors(t *testing.T) {
	t.Parallel()
	u := newTerminal(t)
	u.refused(3, "(NOT_FOUND), request id ", "client", "update", "nobody", "--textname", "x")
	got := u.run("client", "update", "nobody", "--textname", "x", "-o", "json")
	var object struct{ Code string }
	if err := json.Unmarshal([]byte(got.errors), &object); err != nil || object.Code != "NOT_FOUND" || got.code != 3 || got.out != "" {
		t.Errorf("got %+v, %v", got, err)
	}
}

// TestClientInterrupted prints messages as they come, until it is interrupted.
func TestClientInterrupted(t *testing.T) {
	t.Parallel()
	u := newTerminal(t)
	ctx, interrupt := context.WithCancel(t.Context())
	r, w := io.Pipe()
	code := make(chan int)
	var errs strings.Builder
	go func() {
		code <- run(ctx, []string{"message", "listen", "plant/#"}, u.env, strings.NewReader(""), w, &errs)
		w.Close()
	}()
	got := make(chan string, 1)
	go func() {
		part := make([]byte, 1<<16)
		n, _ := r.Read(part) //nolint:errcheck // the text is compared
		got <- string(part[:n])
		io.Copy(io.Discard, r) //nolint:errcheck // until the command ends
	}()
	var text string
	suite.WaitFor(t, "a message is printed", func() bool { // the command may not have subscribed yet
		u.done("message", "publish", "plant/7", "--payload", "\x1b[2J")
		select {
		case text = <-got:
			return true
		default:
			return false
		}
	})
	if !strings.Contains(text, "plant/7") || strings.Contains(text, "\x1b") {
		t.Errorf("printed %q", text)
	}
	interrupt()
	if c := <-code; c != 130 || !strings.Contains(errs.String(), "interrupted") {
		t.Errorf("exit code %d, %q", c, errs.String())
	}
	if got := u.run("message", "listen", "plant/#", "--timeout", "50ms"); got.code != 0 {
		t.Errorf("with a time: %+v", got)
	}
}

// TestContexts names services, and protects their tokens.
func TestContexts(t *testing.T) {
	t.Parallel()
	u := newTerminal(t)
	file := filepath.Join(u.dir, "signalbox", "contexts.json")
	info, err := os.Stat(file)
	if err != nil || info.Mode().Perm() != 0o600 {
		t.Fatalf("the file has mode %v, %v", info.Mode(), err)
	}
	u.refused(5, "--replace", "context", "add", "plant", "--url", "http://127.0.0.1:1")
	u.refused(2, "name of a context", "context", "add", "../x", "--url", "http://127.0.0.1:1")
	u.refused(2, "--url is required", "context", "add", "x")
	u.refused(2, "accepts 1 arg(s)", "context", "use")
	u.refused(2, "has no token", "context", "add", "x", "--url", u.api.URL, "--token-file", os.DevNull)
	u.done("context", "add", "dead", "--url", "http://127.0.0.1:1", "--project", "p", "--broker", "b")
	if got := u.done("context", "list"); strings.Join(strings.Fields(got), " ") !=
		"NAME URL CURRENT PROJECT BROKER dead http://127.0.0.1:1 false p b plant "+u.api.URL+" true - -" {
		t.Errorf("list: %s", got)
	}
	u.done("project", "list")
	u.refused(6, "cannot be reached", "project", "list", "--context", "dead")
	base := u.env
	u.env = append(base[:1:1], "SIGNALBOX_CONTEXT=dead")
	u.refused(6, "cannot be reached", "project", "list")
	u.done("project", "list", "--context", "plant")
	u.env = append(base[:1:1], "SIGNALBOX_CONTEXT=dead", "SIGNALBOX_URL="+u.api.URL)
	u.refused(4, "UNAUTHORIZED", "project", "list") // the token of a context goes to no other service
	u.env = append(u.env, "SIGNALBOX_TOKEN="+u.api.TokenText("viewer"))
	u.done("project", "list")
	u.env = base
	u.done("context", "use", "dead")
	u.refused(6, "cannot be reached", "project", "list")
	u.done("context", "remove", "dead")
	u.refused(3, "there are: plant", "context", "use", "dead")
	u.env = append(base[:1:1], "SIGNALBOX_HTTP_LISTEN="+strings.TrimPrefix(u.api.URL, "http://"))
	u.refused(4, "UNAUTHORIZED", "project", "list") // no context is current: the service on this machine
	u.env = base
	if err := os.Chmod(file, 0o640); err != nil {
		t.Fatal(err)
	}
	u.refused(1, "chmod 600", "context", "list")
	u.refused(1, "chmod 600", "project", "list")
}

// noNames is the completion of a word for which nothing is offered.
const noNames = ":4\n"

// completed returns what the program offers for the last argument. Names that do not come in time are not offered, so it
// asks again if it is offered nothing, unless nothing is wanted.
func (u *terminal) completed(nothing bool, args ...string) (got string) {
	u.t.Helper()
	suite.Eventually(u.t, func() error {
		if got = u.done(append([]string{"__complete"}, args...)...); got == noNames && !nothing {
			return fmt.Errorf("%q offers nothing", args)
		}
		return nil
	})
	return got
}

// TestClientCompletion offers names, and is silent without a service.
func TestClientCompletion(t *testing.T) {
	t.Parallel()
	u := newTerminal(t)
	u.done("client", "create", "pump-7")
	u.done("role", "create", "pumps")
	for want, args := range map[string][]string{
		"pump-7\n:4\n":   {"client", "delete", "pu"},
		"pumps\n:4\n":    {"client", "create", "x", "--role", "p"},
		"embedded\n:4\n": {"client", "list", "--broker", ""},
		"viewer\n:4\n":   {"token", "create", "x", "--role", "v"},
		"plant\n:4\n":    {"context", "use", ""},
		"debug\n:4\n":    {"log", "level", "d"},
		noNames:          {"client", "create", ""},
		"clear-messages\tDelete all messages of a stream\nclear-range\tDelete the messages of a stream in a time range\n:4\n": {"stream", "cl"},
	} {
		if got := u.completed(want == noNames, args...); got != want {
			t.Errorf("%q: got %q, want %q", args, got, want)
		}
	}
	u.env = append(u.env, "SIGNALBOX_URL="+newSlowService(t))
	got := u.run("__complete", "client", "delete", "")
	if got.code != 0 || got.out != noNames || strings.Contains(got.errors, "signalbox:") {
		t.Errorf("without a service: %+v", got)
	}
	for _, shell := range []string{"bash", "zsh", "fish", "powershell"} {
		if got := u.done("completion", shell); !strings.Contains(got, "__complete") {
			t.Errorf("%s: %.100s", shell, got)
		}
	}
}

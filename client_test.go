package main

import (
	"bytes"
	"context"
	"encoding/json"
	"flag"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"signalbox/router/apitest"
)

var update = flag.Bool("update", false, "write golden files anew")

// terminal is a user who runs commands against a service.
type terminal struct {
	t     *testing.T
	api   *apitest.API
	dir   string
	env   []string
	stdin io.Reader
}

// finished is a command that has ended.
type finished struct {
	code        int
	out, errors string
}

// newTerminal starts a service and signs an administrator in to it, with a context.
func newTerminal(t *testing.T, options ...apitest.Option) *terminal {
	t.Helper()
	api := apitest.New(t, options...)
	dir := t.TempDir()
	u := &terminal{t: t, api: api, dir: dir, env: []string{"XDG_CONFIG_HOME=" + dir}}
	password := u.file("password", apitest.RootPassword+"\n")
	u.env = append(u.env, "SIGNALBOX_URL="+api.URL)
	token := u.done("user", "login", apitest.RootEmail, "--password-file", password, "--columns", "token", "--no-header")
	u.done("context", "add", "plant", "--url", api.URL, "--token-file", u.file("token", token))
	u.env = u.env[:1]
	return u
}

func (u *terminal) file(name, content string) (path string) {
	u.t.Helper()
	path = filepath.Join(u.dir, name)
	if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
		u.t.Fatal(err)
	}
	return path
}

// run runs a command in process.
func (u *terminal) run(args ...string) finished {
	u.t.Helper()
	return u.runUntil(u.t.Context(), args...)
}

func (u *terminal) runUntil(ctx context.Context, args ...string) finished {
	u.t.Helper()
	var out, errs bytes.Buffer
	in := u.stdin
	if in == nil {
		in = strings.NewReader("")
	}
	code := run(ctx, args, u.env, in, &out, &errs)
	return finished{code, out.String(), errs.String()}
}

// done runs a command that must succeed and returns its output.
func (u *terminal) done(args ...string) string {
	u.t.Helper()
	got := u.run(args...)
	if got.code != 0 {
		u.t.Fatalf("%q: exit code %d: %s%s", args, got.code, got.out, got.errors)
	}
	return got.out
}

// refused runs a command that must fail with a code, with words on standard error and
// nothing on standard output.
func (u *terminal) refused(code int, words string, args ...string) {
	u.t.Helper()
	got := u.run(args...)
	if got.code != code || !strings.Contains(got.errors, words) || got.out != "" {
		u.t.Errorf("%q: exit code %d, %q, %q; want %d and %q", args, got.code, got.out, got.errors, code, words)
	}
}

// golden compares a text with a file of testdata.
func golden(t *testing.T, name, got string) {
	t.Helper()
	path := filepath.Join("router", "cli", "testdata", name)
	if *update {
		if err := os.WriteFile(path, []byte(got), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), got); diff != "" {
		t.Errorf("%s (-want +got):\n%s", path, diff)
	}
}

// wantDisabled checks whether the client pump-7 is disabled.
func (u *terminal) wantDisabled(want string) {
	u.t.Helper()
	if got := u.done("client", "list", "--columns", "disabled", "--no-header", "--filter-value", "pump-7"); got != want+"\n" {
		u.t.Errorf("disabled: got %q, want %s", got, want)
	}
}

func TestClientHelp(t *testing.T) {
	t.Parallel()
	u := &terminal{t: t}
	golden(t, "help-client-create.txt", u.done("client", "create", "--help"))
	golden(t, "help-stream-replay.txt", u.done("help", "stream", "replay"))
	golden(t, "help-broker-list.txt", u.done("broker", "list", "--help"))
	golden(t, "help-client.txt", u.done("client"))
}

// TestClientCommands creates, lists, changes and deletes objects of access control.
func TestClientCommands(t *testing.T) {
	t.Parallel()
	u := newTerminal(t)
	u.done("role", "create", "sensor", "--set", `acls=[{"acltype":"publishClientSend","topic":"plant/#","priority":0,"allow":true}]`, "--textname", "Sensors")
	u.done("client", "create", "pump-7", "--role", "sensor", "--password-file", u.file("secret", "drip\n"), "--project", "default", "--broker", u.api.Embedded)
	u.done("client", "create", "evil\u202e", "--textname", "a\x1b[2J\tb")
	u.done("client", "create", "-f", u.file("client.yaml", "username: from-file\nroles: [{rolename: sensor, priority: 5}]\n"), "--textname", "YAML")
	golden(t, "table-client-list.txt", u.done("client", "list"))
	golden(t, "table-client-columns.txt", u.done("client", "list", "--columns", "username,textname", "--no-header"))
	golden(t, "yaml-client-list.txt", u.done("client", "list", "-o", "yaml"))
	golden(t, "jsonl-client-list.txt", u.done("client", "list", "-o", "jsonl"))
	if got, want := u.done("client", "list", "-o", "name"), "admin\nevil\\u202e\nfrom-file\npump-7\n"; got != want {
		t.Errorf("names: got %q, want %q", got, want)
	}
	var want json.RawMessage
	u.api.Root.Get(u.api.At("/clients?count=100")).Want(200).Decode(&want)
	for _, args := range [][]string{{}, {"--all"}, {"--count", "100"}} {
		if got := u.done(append([]string{"client", "list", "-o", "json"}, args...)...); got != string(want)+"\n" {
			t.Errorf("json %v: got %s, want %s", args, got, want)
		}
	}
	u.done("client", "enable", "pump-7", "--enable=false")
	u.wantDisabled("true")
	u.done("client", "enable", "pump-7")
	u.wantDisabled("false")
	u.done("client", "disable", "-f", u.file("enable.yaml", "username: pump-7\nenable: true\n"))
	u.done("client", "update", "pump-7", "--role", "", "--textname", "off")
	if got := u.done("client", "list", "--columns", "username,disabled,roles,textname", "--no-header", "--filter-value", "pump"); strings.Join(strings.Fields(got), " ") != "pump-7 true - off" {
		t.Errorf("after the change: %q", got)
	}
	u.done("client", "delete", "pump-7", "--yes")
	u.refused(3, "NOT_FOUND", "client", "update", "pump-7", "--textname", "x")
	if got := u.done("user", "list", "-o", "json", "--all"); !json.Valid([]byte(got)) || !strings.HasPrefix(got, "[{") {
		t.Errorf("users: %s", got)
	}
	if got := u.done("message", "publish", "plant/7", "--payload", "4.2", "--retain") + u.done("retained", "list", "--columns", "topic,payload", "--no-header"); strings.Join(strings.Fields(got), " ") != "plant/7 4.2" {
		t.Errorf("retained: %q", got)
	}
	if got := u.done("search", "pump", "--project", "default", "-o", "json"); !strings.HasPrefix(got, `{"results":[]`) {
		t.Errorf("search: %s", got)
	}
	if got := u.done("service", "metrics"); !strings.Contains(got, "# TYPE signalbox_") {
		t.Errorf("metrics: %.200s", got)
	}
	if got := u.done("broker", "get", "embedded", "--columns", "name,status.connected", "--no-header"); strings.Join(strings.Fields(got), " ") != "embedded true" {
		t.Errorf("broker: %q", got)
	}
	if got := u.done("broker", "get", "embedded"); !strings.Contains(got, "\nname                embedded\n") {
		t.Errorf("broker: %q", got)
	}
}

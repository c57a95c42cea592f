package cli

import (
	"bytes"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/spf13/cobra"

	"signalbox/router/client"
)

// errLocal is the end of each command here: it wants to call the service.
var errLocal = errors.New("no service")

// runAt runs a command at a terminal at which a user types.
func runAt(t *testing.T, typed, password string, args ...string) (shown string, err error) {
	t.Helper()
	var errs bytes.Buffer
	env := &Env{Stdin: strings.NewReader(typed), Terminal: func(any) bool { return true },
		ReadPassword: func() ([]byte, error) { return []byte(password), nil },
		Local:        func() (client.Options, error) { return client.Options{}, errLocal }}
	root := &cobra.Command{Use: "signalbox", SilenceErrors: true, SilenceUsage: true}
	must(t, AddTo(root, env))
	root.SetArgs(args)
	root.SetErr(&errs)
	err = root.ExecuteContext(t.Context())
	return errs.String(), err
}

// TestConfirmation asks before a destructive command, at a terminal.
func TestConfirmation(t *testing.T) {
	t.Parallel()
	for typed, asked := range map[string]bool{"y\n": true, "YES\n": true, "n\n": false, "\n": false, "": false} {
		shown, err := runAt(t, typed, "", "client", "delete", "pump\x1b[2J")
		if shown != `Delete a client pump\x1b[2J? [y/N] ` {
			t.Errorf("shown %q", shown)
		}
		if errors.Is(err, errLocal) != asked {
			t.Errorf("%q: got %v", typed, err)
		}
	}
	if shown, err := runAt(t, "", "", "client", "delete", "pump", "--yes"); !errors.Is(err, errLocal) || shown != "" {
		t.Errorf("with --yes: %v, %q", err, shown)
	}
	if shown, err := runAt(t, "", "", "job", "cancel", "x"); !errors.Is(err, errLocal) || shown != "" {
		t.Errorf("not destructive: %v, %q", err, shown)
	}
}

// TestPasswords asks for passwords without echo.
func TestPasswords(t *testing.T) {
	t.Parallel()
	shown, err := runAt(t, "", "drip", "user", "login", "a@example.org")
	if !errors.Is(err, errLocal) || shown != "password: \n" {
		t.Errorf("required: %v, %q", err, shown)
	}
	shown, err = runAt(t, "", "drip", "client", "create", "x", "--ask-password")
	if !errors.Is(err, errLocal) || shown != "password: \n" {
		t.Errorf("asked for: %v, %q", err, shown)
	}
	if _, err := runAt(t, "", "", "user", "change-password"); !errors.Is(err, errLocal) {
		t.Errorf("two passwords: %v", err)
	}
	if _, err := runAt(t, "", "", "user", "create", "a@example.org", "--password-file", "-", "-f", "-"); ExitCode(err) != CodeUsage || !strings.Contains(err.Error(), "standard input") {
		t.Errorf("standard input twice: %v", err)
	}
}

// TestProgress shows a bar at a terminal only, otherwise one line each ten seconds.
func TestProgress(t *testing.T) {
	t.Parallel()
	var w bytes.Buffer
	now := time.Unix(0, 0)
	p := newProgress(&w, false, 100, func() time.Time { return now })
	for i := range 30 {
		now = now.Add(time.Second)
		p.step(i, 0)
	}
	p.end()
	if got := w.String(); got != "signalbox: 9 done, 0 failed, 1 a second\nsignalbox: 19 done, 0 failed, 1 a second\nsignalbox: 29 done, 0 failed, 1 a second\n" {
		t.Errorf("got %q", got)
	}
	w.Reset()
	bar := newProgress(&w, true, 4, time.Now)
	bar.step(2, 1)
	bar.end()
	if got := w.String(); !strings.Contains(got, "\r") || strings.Contains(got, "\x1b[3") {
		t.Errorf("the bar is %q", got)
	}
}

// TestTextAtTerminal prints a response that is not JSON: at a terminal without its commands.
func TestTextAtTerminal(t *testing.T) {
	t.Parallel()
	const text = "plain\n\x1b[2Jescape\u009b\nlast"
	for terminal, want := range map[bool]string{true: "plain\n\\x1b[2Jescape\\u009b\nlast", false: text} {
		var out bytes.Buffer
		c := &command{tree: &tree{env: &Env{Terminal: func(any) bool { return terminal }}}}
		if err := c.copyText(&out, strings.NewReader(text)); err != nil || out.String() != want {
			t.Errorf("terminal %v: got %q, %v, want %q", terminal, out.String(), err, want)
		}
	}
}

// TestNewPassword asks for a new password twice at the terminal.
func TestNewPassword(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		typed    [2]string
		terminal bool
		code     int
	}{{[2]string{"brand-new-1", "brand-new-1"}, true, 0}, {[2]string{"a", "b"}, true, CodeUsage}, {[2]string{}, true, CodeUsage}, {[2]string{"a", "a"}, false, CodeUsage}} {
		asked := 0
		env := &Env{Terminal: func(any) bool { return c.terminal },
			ReadPassword: func() ([]byte, error) { asked++; return []byte(c.typed[asked-1]), nil }}
		got, err := env.NewPassword(&bytes.Buffer{}, "")
		if ExitCode(err) != c.code || err == nil && got != c.typed[0] {
			t.Errorf("%+v: got %q, %v", c, got, err)
		}
	}
}

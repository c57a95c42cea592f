// Package packagetest makes a release for all platforms, and uses what is for this one as those do who
// download it: with dpkg, rpm, skopeo, minisign and sha256sum, and under systemd.
//
// It has tests only.
package packagetest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"signalbox/scripts/suite"
)

func TestMain(m *testing.M) { suite.Main(m) }

// root is the directory of the module.
var root = filepath.Join("..", "..")

// run runs a program with variables added to the environment. It fails the test if the
// program does, or does not end, and returns what it has printed.
func run(t *testing.T, env []string, name string, args ...string) string {
	t.Helper()
	out, err := try(t, env, name, args...)
	if err != nil {
		t.Fatalf("%s %s: %v\n%s", name, strings.Join(args, " "), err, out)
	}
	return out
}

// silenceLimit is how long a program may print nothing. It only ends those that would not end: how long
// a whole release takes, which prints the platform that it has come to, depends on the machine.
const silenceLimit = 10 * suite.HangLimit

// output is what a program has printed. Each write starts silenceLimit anew.
type output struct {
	text   bytes.Buffer
	silent *time.Timer
}

func (o *output) Write(p []byte) (int, error) {
	o.silent.Reset(silenceLimit)
	return o.text.Write(p)
}

// try is run for a program that may fail. Of one that succeeds it returns the standard
// output only.
func try(t *testing.T, env []string, name string, args ...string) (string, error) {
	t.Helper()
	ctx, cancel := context.WithCancelCause(t.Context())
	defer cancel(nil)
	silent := time.AfterFunc(silenceLimit, func() { cancel(fmt.Errorf("it printed nothing for %s", silenceLimit)) })
	defer silent.Stop()
	out, errs := output{silent: silent}, output{silent: silent}
	cmd := exec.CommandContext(ctx, name, args...)
	cmd.Env = append(suite.Environment(), env...)
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) } // what it has started, too
	cmd.Stdout, cmd.Stderr = &out, &errs
	if err := cmd.Run(); err != nil {
		return out.text.String() + errs.text.String(), errors.Join(err, context.Cause(ctx))
	}
	return out.text.String(), nil
}

// need skips the test, but not in CI, if a program is missing, or no namespace can be
// made.
func need(t *testing.T, names ...string) {
	t.Helper()
	skip := t.Skipf
	if os.Getenv("CI") != "" {
		skip = t.Fatalf
	}
	for _, name := range names {
		if _, err := exec.LookPath(name); err != nil {
			skip("%s is not installed (scripts/install)", name)
		}
	}
	if out, err := try(t, nil, "unshare", "--mount", "--net", "--pid", "--fork", "true"); err != nil {
		skip("namespaces cannot be made, which root may: %v: %s", err, out)
	}
}

// script returns the path of a script of the tests.
func script(name string) string { return filepath.Join("testdata", name) }

// only returns the one file that matches a pattern.
func only(t *testing.T, dir, pattern string) string {
	t.Helper()
	found, err := filepath.Glob(filepath.Join(dir, pattern))
	if err != nil || len(found) != 1 {
		t.Fatalf("%s: %q, %v, want one file", pattern, found, err)
	}
	return found[0]
}

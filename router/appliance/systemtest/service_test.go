package systemtest

import (
	"bytes"
	"errors"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"signalbox/scripts/process"
	"signalbox/scripts/suite"
)

// The credentials of a service whose passwords are configured.
const (
	rootEmail    = "root@example.com"
	rootPassword = "correct horse battery"
	mqttAdmin    = "admin"
	mqttPassword = "staple for brokers"
)

// settings are the environment variables of a process without the prefix. Those of a
// test take precedence.
type settings map[string]string

// configFile is the setting that is a flag instead of an environment variable.
const configFile = ""

// configured returns settings with which nothing has to be generated.
func configured(more settings) settings {
	s := settings{"ADMIN_EMAIL": rootEmail, "ADMIN_PASSWORD": rootPassword, "BROKER_ADMIN_PASSWORD": mqttPassword}
	for name, value := range more {
		s[name] = value
	}
	return s
}

// environ returns the whole environment of a process on a data directory: by default
// free ports of the loopback interface and cheap password hashes.
func (s settings) environ(dir string) []string {
	all := settings{"DATA_DIR": dir, "HTTP_LISTEN": "127.0.0.1:0", "BROKER_LISTEN": "127.0.0.1:0",
		"BROKER_PASSWORD_ITERATIONS": "1000", "LOG_LEVEL": "debug"}
	for name, value := range s {
		all[name] = value
	}
	delete(all, configFile)
	var env []string
	for name, value := range all {
		env = append(env, "SIGNALBOX_"+name+"="+value)
	}
	slices.Sort(env)
	return append(env, "PATH=/usr/sbin:/usr/bin:/sbin:/bin")
}

// service is one run of "signalbox serve".
type service struct {
	*process.Service
	dir string
}

// launch starts the program without waiting for anything. The umask is the most
// permissive one: the program itself has to protect private files.
func launch(t testing.TB, dir string, s settings) *service {
	t.Helper()
	return launchProgram(t, process.Program, dir, s)
}

// launchProgram is launch of another build.
func launchProgram(t testing.TB, program, dir string, s settings) *service {
	t.Helper()
	args := []string{"-c", `umask 0; exec "$0" serve "$@"`, program}
	if file := s[configFile]; file != "" {
		args = append(args, "--config", file)
	}
	cmd := exec.Command("/bin/sh", args...)
	cmd.Env, cmd.Dir = s.environ(dir), t.TempDir()
	p, err := process.Serve(cmd)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		p.Kill()
		suite.NoPanic(t, p.Stderr.String())
		if t.Failed() && testing.Verbose() {
			t.Logf("log of the process on %s:\n%s", dir, p.Stderr.String())
		}
	})
	return &service{p, dir}
}

// serve starts the program and waits until it is ready.
func serve(t testing.TB, dir string, s settings) *service {
	t.Helper()
	p := launch(t, dir, s)
	p.awaitReady(t)
	return p
}

func (p *service) awaitReady(t testing.TB) {
	t.Helper()
	if err := p.AwaitReady(t.Context()); err != nil {
		t.Fatal(err)
	}
}

// stop ends the process as an init system does. Exit code 0 means that it ended within
// its ten seconds.
func (p *service) stop(t testing.TB) {
	t.Helper()
	p.Signal(syscall.SIGTERM)
	p.wantStopped(t)
}

// wantStopped waits for the end of a process that was signalled.
func (p *service) wantStopped(t testing.TB) {
	t.Helper()
	if err := p.AwaitEnd(); err != nil {
		t.Error(err)
	}
	if code := p.ExitCode(); code != 0 {
		t.Errorf("stopped with exit code %d: %s", code, lastLines(p.Stderr.String()))
	}
}

func lastLines(text string) string {
	lines := strings.SplitAfter(text, "\n")
	return strings.Join(lines[max(0, len(lines)-5):], "")
}

// outcome is the result of a command.
type outcome struct {
	code           int
	stdout, stderr string
}

// command runs a command of the program to its end.
func command(t testing.TB, env []string, args ...string) outcome {
	t.Helper()
	return finish(t, prepare(env, args...))
}

func prepare(env []string, args ...string) *exec.Cmd {
	cmd := exec.Command(process.Program, args...)
	cmd.Env = env
	cmd.SysProcAttr = process.DieWithParent()
	return cmd
}

// finish runs a command that must end.
func finish(t testing.TB, cmd *exec.Cmd) outcome {
	t.Helper()
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	late := time.AfterFunc(suite.HangLimit, func() { cmd.Process.Kill() }) //nolint:errcheck // it may have ended
	defer late.Stop()
	err := cmd.Wait()
	if _, exited := errors.AsType[*exec.ExitError](err); err != nil && !exited {
		t.Fatal(err)
	}
	if cmd.ProcessState.ExitCode() < 0 {
		t.Fatalf("%s did not end: %s%s", filepath.Base(cmd.Path), stdout.String(), stderr.String())
	}
	return outcome{code: cmd.ProcessState.ExitCode(), stdout: stdout.String(), stderr: stderr.String()}
}

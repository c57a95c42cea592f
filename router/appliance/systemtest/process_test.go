package systemtest

import (
	"bytes"
	"errors"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"signalbox/broker/brokertest"
	"signalbox/scripts/suite"
)

// The credentials of a service whose passwords are configured.
const (
	rootEmail    = "root@example.com"
	rootPassword = "correct horse battery"
	mqttAdmin    = "admin"
	mqttPassword = "staple for brokers"
)

// waitFor waits until the condition holds. What completes "waited in vain until".
func waitFor(t testing.TB, what string, holds func() bool) {
	t.Helper()
	brokertest.WaitFor(t, what, holds)
}

// settings are what a process is started with, as environment variables
// without the prefix. Those of a test go over these.
type settings map[string]string

// configFile is the setting that no variable of the environment gives.
const configFile = ""

// configured are settings under which nothing has to be generated.
func configured(more settings) settings {
	s := settings{"ADMIN_EMAIL": rootEmail, "ADMIN_PASSWORD": rootPassword, "BROKER_ADMIN_PASSWORD": mqttPassword}
	for name, value := range more {
		s[name] = value
	}
	return s
}

// environ gives the whole environment of a process on a data directory: free
// ports of the loopback interface and cheap password hashes, where the test
// says nothing else.
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

// process is one run of "signalbox serve".
type process struct {
	dir            string
	url            string // of the API, as the greeting says
	mqtt           string // host:port of the broker, "" where there is none
	stdout, stderr output
	cmd            *exec.Cmd
	done           chan struct{} // closed when it has ended
}

// output is what a process has written so far.
type output struct {
	mu sync.Mutex // guards b
	b  bytes.Buffer
}

// Write takes more of it.
func (o *output) Write(p []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.b.Write(p)
}

// String gives it.
func (o *output) String() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.b.String()
}

// launch starts the program without waiting for anything. The umask is the
// most careless one: what must be private the program has to make so itself.
func launch(t testing.TB, dir string, s settings) *process {
	t.Helper()
	p := &process{dir: dir, done: make(chan struct{})}
	args := []string{"-c", `umask 0; exec "$0" serve "$@"`, program}
	if file := s[configFile]; file != "" {
		args = append(args, "--config", file)
	}
	p.cmd = exec.Command("/bin/sh", args...)
	p.cmd.Env = s.environ(dir)
	p.cmd.Dir = t.TempDir()
	p.cmd.Stdout, p.cmd.Stderr = &p.stdout, &p.stderr
	p.cmd.SysProcAttr = dieWithParent()
	if err := p.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	go func() {
		defer close(p.done)
		p.cmd.Wait() //nolint:errcheck // the state tells how it ended
	}()
	t.Cleanup(func() {
		p.kill()
		suite.NoPanic(t, p.stderr.String())
		if t.Failed() && testing.Verbose() {
			t.Logf("log of the process on %s:\n%s", dir, p.stderr.String())
		}
	})
	return p
}

var greeting = regexp.MustCompile(`(?s)is ready\.\n  API   (\S+) .*\n  data  \S+\n`)

// serve starts the program and waits until it says that it is ready.
func serve(t testing.TB, dir string, s settings) *process {
	t.Helper()
	p := launch(t, dir, s)
	p.awaitGreeting(t)
	return p
}

func (p *process) awaitGreeting(t testing.TB) {
	t.Helper()
	waitFor(t, "the program is ready or has ended", func() bool { return p.ended() || greeting.MatchString(p.stdout.String()) })
	said := p.stdout.String()
	match := greeting.FindStringSubmatch(said)
	if match == nil {
		t.Fatalf("serve ended with %d: %s%s", p.code(), said, p.stderr.String())
	}
	p.url = match[1]
	if mqtt := regexp.MustCompile(`\n  MQTT  mqtt://(\S+)\n`).FindStringSubmatch(said); mqtt != nil {
		p.mqtt = mqtt[1]
	}
}

func (p *process) ended() bool {
	select {
	case <-p.done:
		return true
	default:
		return false
	}
}

// code gives the exit code of a process that has ended, -1 after a signal.
func (p *process) code() int {
	<-p.done
	return p.cmd.ProcessState.ExitCode()
}

func (p *process) signal(s syscall.Signal) { p.cmd.Process.Signal(s) } //nolint:errcheck // it may have ended

// kill ends the process as a power cut would, as far as it is concerned.
func (p *process) kill() {
	p.signal(syscall.SIGKILL)
	<-p.done
}

// stop ends the process as an init system does. Exit code 0 means that it needed
// no more than the ten seconds that it gives itself.
func (p *process) stop(t testing.TB) {
	t.Helper()
	p.signal(syscall.SIGTERM)
	p.wantStopped(t)
}

// wantStopped holds a process that was told to stop to its promise.
func (p *process) wantStopped(t testing.TB) {
	t.Helper()
	select {
	case <-p.done:
	case <-time.After(suite.HangLimit):
		t.Errorf("still running %v after it was told to stop", suite.HangLimit)
		p.kill()
	}
	if code := p.code(); code != 0 {
		t.Errorf("stopped with exit code %d: %s", code, lastLines(p.stderr.String()))
	}
}

func lastLines(text string) string {
	lines := strings.SplitAfter(text, "\n")
	return strings.Join(lines[max(0, len(lines)-5):], "")
}

// outcome is how a command ended.
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
	cmd := exec.Command(program, args...)
	cmd.Env = env
	cmd.SysProcAttr = dieWithParent()
	return cmd
}

// finish runs a command that must come to its end.
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

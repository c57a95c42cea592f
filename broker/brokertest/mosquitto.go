package brokertest

import (
	"context"
	"crypto/rand"
	"errors"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"signalbox/broker"
	"signalbox/scripts/process"
)

// Server is a Mosquitto that runs for one test. The URLs of listeners that were not configured
// are empty.
type Server struct {
	Addr          string // host:port of the plain listener
	URL           string // mqtt://…
	TLSURL        string // mqtts://…
	WSURL         string // ws://…
	WSSURL        string // wss://…
	AdminUsername string
	AdminPassword broker.Secret
	ConfigPath    string // mosquitto.conf
	DynsecPath    string // dynamic-security.json, as written by Mosquitto
	CA            *CA    // issued the certificate of the TLS listeners

	binary  string
	plugin  string
	options options
	run     *process.Process
}

// Target returns the server as a stored connection with the admin's credentials.
func (s *Server) Target() broker.Target {
	return broker.Target{ID: "mosquitto", Rev: 1, URL: s.URL,
		Username: s.AdminUsername, Password: s.AdminPassword}
}

// Mosquitto starts a Mosquitto with dynamic security on free ports of 127.0.0.1, and stops it
// after the test. Its admin has all rights. If Mosquitto is not installed the test is skipped, or
// fails if the environment variable CI is set.
func Mosquitto(t testing.TB, opts ...Option) *Server {
	t.Helper()
	s := &Server{AdminUsername: "admin", AdminPassword: broker.Secret(rand.Text())}
	for _, opt := range opts {
		opt(&s.options)
	}
	s.binary, s.plugin = installed(t, !s.options.noPlugin)
	s.prepare(t)
	s.startOnFreePorts(t)
	t.Cleanup(func() {
		s.Stop(t)
		if t.Failed() {
			t.Logf("the end of mosquitto's log:\n%s", s.run.Tail())
		}
	})
	return s
}

// installed returns the paths of Mosquitto and its plugin.
func installed(t testing.TB, withPlugin bool) (binary, plugin string) {
	t.Helper()
	binary = process.Mosquitto(t)
	if !withPlugin {
		return binary, ""
	}
	for _, dir := range []string{"/usr/lib/*", "/usr/lib", "/usr/lib64", "/usr/local/lib", "/opt/homebrew/lib"} {
		found, _ := filepath.Glob(filepath.Join(dir, "mosquitto_dynamic_security.so")) // the pattern is valid
		if len(found) > 0 {
			return binary, found[0]
		}
	}
	process.Missing(t, "mosquitto's dynamic security plugin is not installed")
	return "", ""
}

// startOnFreePorts starts Mosquitto. Its listeners for WebSockets cannot use a port with
// connections in TIME_WAIT: then it tries others.
func (s *Server) startOnFreePorts(t testing.TB) {
	t.Helper()
	for range 10 {
		s.configure(t)
		err := s.launch(t)
		if err == nil {
			return
		}
		if !errors.Is(err, errPortTaken) {
			t.Fatalf("start mosquitto: %v; its log:\n%s", err, s.run.Tail())
		}
	}
	t.Fatal("start mosquitto: every free port was taken by somebody else")
}

// Start starts a stopped server again, on the same ports and with its dynamic-security.json.
func (s *Server) Start(t testing.TB) {
	t.Helper()
	if err := s.launch(t); err != nil {
		t.Fatalf("start mosquitto again: %v; its log:\n%s", err, s.run.Tail())
	}
}

// Stop stops the server and waits for its end. It does nothing if the server is stopped.
func (s *Server) Stop(t testing.TB) {
	t.Helper()
	if err := s.run.End(syscall.SIGTERM); err != nil {
		t.Errorf("stop mosquitto: %v", err)
	}
}

// errPortTaken is a start that failed because a port was in use.
var errPortTaken = errors.New("a port is in use")

// launch starts Mosquitto and waits until its log reports that it is ready.
func (s *Server) launch(t testing.TB) error {
	t.Helper()
	run, err := process.Start(exec.Command(s.binary, "-c", s.ConfigPath), func(line string) bool { return strings.HasSuffix(line, " running") })
	if err != nil {
		t.Fatalf("start mosquitto: %v", err)
	}
	run.Repeat = true
	s.run = run
	if err = s.run.AwaitReady(context.Background()); err == nil {
		return nil
	}
	for _, said := range []string{"Address already in use", "Unable to create websockets listener"} {
		if s.run.Ended() && strings.Contains(s.run.Tail(), said) {
			return errPortTaken
		}
	}
	return errors.Join(err, s.run.End(syscall.SIGTERM))
}

package crash

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"

	"signalbox/scripts/process"
	"signalbox/scripts/suite"
)

// server is a broker that is started and ended many times, on the same address
// and with the same files.
type server struct {
	addr               string // host:port, as soon as it was started
	username, password string // empty where every client is let in
	gate               *gate

	launch func(context.Context) (*process.Process, error) // returns once the broker serves
	run    *process.Process
}

// newSignalbox prepares the program under test.
func newSignalbox(t *testing.T, settings ...string) *server {
	t.Helper()
	dir := t.TempDir()
	s := &server{addr: net.JoinHostPort(suite.Host(), "0"), username: "admin", password: rand.Text(), gate: newGate()}
	s.launch = func(ctx context.Context) (*process.Process, error) {
		cmd := exec.Command(process.Program, "serve")
		cmd.Env = append([]string{
			"SIGNALBOX_DATA_DIR=" + dir,
			"SIGNALBOX_HTTP_LISTEN=127.0.0.1:0",
			"SIGNALBOX_BROKER_LISTEN=" + s.addr,
			"SIGNALBOX_BROKER_ADMIN_PASSWORD=" + s.password,
		}, settings...)
		run, err := process.Serve(cmd)
		if err != nil {
			return nil, err
		}
		err = run.AwaitReady(ctx)
		if err == nil && s.addr != run.MQTT { // only after the first start: clients read it
			s.addr = run.MQTT
		}
		return run.Process, err
	}
	s.stopAtEnd(t)
	return s
}

// newMosquitto prepares a Mosquitto that keeps sessions and retained messages
// when it is asked to end, and loses them when it is killed.
func newMosquitto(t *testing.T) *server {
	t.Helper()
	binary := process.Mosquitto(t)
	dir := t.TempDir()
	ln, err := net.Listen("tcp", net.JoinHostPort(suite.Host(), "0"))
	if err != nil {
		t.Fatal(err)
	}
	s := &server{addr: ln.Addr().String(), gate: newGate()}
	ln.Close()
	host, port, _ := net.SplitHostPort(s.addr) // it is an address
	conf := filepath.Join(dir, "mosquitto.conf")
	text := fmt.Sprintf("listener %s %s\nallow_anonymous true\nset_tcp_nodelay true\nmax_queued_messages 0\n"+
		"persistence true\npersistence_location %s/\nlog_dest stderr\nlog_type information\nlog_type error\nlog_type warning\n", port, host, dir)
	if os.Geteuid() == 0 {
		text += "user root\n" // otherwise it drops its privileges, and cannot write here
	}
	if err := os.WriteFile(conf, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	s.launch = func(ctx context.Context) (*process.Process, error) {
		run, err := process.Start(exec.Command(binary, "-c", conf), func(line string) bool { return strings.HasSuffix(line, " running") })
		if err != nil {
			return nil, err
		}
		run.Repeat = true
		return run, run.AwaitReady(ctx)
	}
	s.stopAtEnd(t)
	return s
}

func (s *server) stopAtEnd(t *testing.T) {
	t.Cleanup(func() {
		if err := s.end(syscall.SIGTERM); err != nil {
			t.Error(err)
		}
		if t.Failed() && s.run != nil {
			t.Logf("the last lines of the broker's output:\n%s", s.run.Tail())
		}
	})
}

// start starts the broker, waits until it serves, and opens its gate.
func (s *server) start(ctx context.Context) (err error) {
	if s.run, err = s.launch(ctx); err == nil {
		s.gate.unlock()
	}
	return err
}

// end shuts the gate, sends a signal and waits for the end of the process. The
// gate counts a new life only when the old one is over.
func (s *server) end(sig os.Signal) error {
	s.gate.lock()
	if s.run == nil {
		return nil
	}
	return errors.Join(s.run.End(sig), s.run.Panic())
}

// gate blocks clients while the broker does not run. It counts the broker's lives.
type gate struct {
	mu   sync.Mutex
	open chan struct{} // closed while the broker runs
	life int
}

func newGate() *gate { return &gate{open: make(chan struct{})} }

func (g *gate) unlock() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.life++
	close(g.open)
}

func (g *gate) lock() {
	g.mu.Lock()
	defer g.mu.Unlock()
	select {
	case <-g.open:
		g.open = make(chan struct{})
	default: // it is shut
	}
}

// pass waits until the broker runs, and returns the number of its life.
func (g *gate) pass(ctx context.Context) (life int, err error) {
	for {
		g.mu.Lock()
		open, life := g.open, g.life
		g.mu.Unlock()
		select {
		case <-open:
			return life, nil
		case <-ctx.Done():
			return 0, ctx.Err()
		}
	}
}

// in reports whether the broker still is, or was last, in that life.
func (g *gate) in(life int) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.life == life
}

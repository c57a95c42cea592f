package crash

import (
	"bufio"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"signalbox/scripts/suite"
)

// server is a broker that is started and ended many times, on the same address
// and with the same files.
type server struct {
	addr               string // host:port, as soon as it was started
	username, password string // empty where everybody is let in
	gate               *gate

	command func() *exec.Cmd
	greeted func(line string) (serving bool)
	// forgetful is set for a broker that forgets a signal while it starts, as
	// Mosquitto does: it is sent again and again.
	forgetful bool
	run       *run
}

// run is one life of the process.
type run struct {
	cmd     *exec.Cmd
	serving chan struct{}
	done    chan struct{} // closed when it has ended and its output was read

	mu    sync.Mutex // guards the fields below
	tail  []string
	panic string // first line of a panic
}

// newSignalbox prepares the program under test.
func newSignalbox(t *testing.T, settings ...string) *server {
	t.Helper()
	dir := t.TempDir()
	s := &server{addr: net.JoinHostPort(suite.Host(), "0"), username: "admin", password: rand.Text(), gate: newGate()}
	s.command = func() *exec.Cmd {
		cmd := exec.Command(program, "serve")
		cmd.Env = append([]string{
			"SIGNALBOX_DATA_DIR=" + dir,
			"SIGNALBOX_HTTP_LISTEN=127.0.0.1:0",
			"SIGNALBOX_BROKER_LISTEN=" + s.addr,
			"SIGNALBOX_BROKER_ADMIN_PASSWORD=" + s.password,
		}, settings...)
		return cmd
	}
	s.greeted = func(line string) bool {
		fields := strings.Fields(line)
		if len(fields) < 2 || fields[0] != "MQTT" {
			return false
		}
		if addr := strings.TrimPrefix(fields[1], "mqtt://"); addr != s.addr { // only once: clients look at it
			s.addr = addr
		}
		return true
	}
	s.stopAtEnd(t)
	return s
}

// newMosquitto prepares a Mosquitto that keeps sessions and retained messages
// when it is asked to end, and loses them when it is killed.
func newMosquitto(t *testing.T) *server {
	t.Helper()
	binary := findMosquitto(t)
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
		text += "user root\n" // otherwise it gives its rights up, and cannot write here
	}
	if err := os.WriteFile(conf, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	s.forgetful = true
	s.command = func() *exec.Cmd { return exec.Command(binary, "-c", conf) }
	s.greeted = func(line string) bool { return strings.HasSuffix(line, " running") }
	s.stopAtEnd(t)
	return s
}

func findMosquitto(t *testing.T) string {
	t.Helper()
	for _, name := range []string{"mosquitto", "/usr/sbin/mosquitto", "/usr/local/sbin/mosquitto"} {
		if path, err := exec.LookPath(name); err == nil {
			return path
		}
	}
	if os.Getenv("CI") != "" {
		t.Fatal("mosquitto is not installed (apt-get install mosquitto)")
	}
	t.Skip("mosquitto is not installed (apt-get install mosquitto)")
	return ""
}

func (s *server) stopAtEnd(t *testing.T) {
	t.Cleanup(func() {
		if err := s.end(syscall.SIGTERM); err != nil {
			t.Error(err)
		}
		if t.Failed() && s.run != nil {
			t.Logf("the end of the broker's output:\n%s", s.run.said())
		}
	})
}

// start starts the broker, waits until it serves, and opens its gate.
func (s *server) start(ctx context.Context) error {
	cmd := s.command()
	cmd.SysProcAttr = dieWithParent()
	r, w, err := os.Pipe()
	if err != nil {
		return err
	}
	cmd.Stdout, cmd.Stderr = w, w
	if err := errors.Join(cmd.Start(), w.Close()); err != nil {
		return errors.Join(err, r.Close())
	}
	s.run = &run{cmd: cmd, serving: make(chan struct{}), done: make(chan struct{})}
	go s.run.follow(r, s.greeted)
	ctx, cancel := context.WithTimeout(ctx, suite.HangLimit)
	defer cancel()
	select {
	case <-s.run.serving:
		s.gate.unlock()
		return nil
	case <-s.run.done:
		return fmt.Errorf("the broker ended at once:\n%s", s.run.said())
	case <-ctx.Done():
		return fmt.Errorf("the broker does not serve: %w; it said:\n%s", ctx.Err(), s.run.said())
	}
}

// end shuts the gate, sends a signal and waits for the end of the process. The gate counts a new life only when the old one is over.
func (s *server) end(sig os.Signal) error {
	s.gate.lock()
	if s.run == nil {
		return nil
	}
	again := time.NewTicker(50 * time.Millisecond)
	defer again.Stop()
	for sent, deadline := false, time.Now().Add(suite.HangLimit); time.Now().Before(deadline); {
		if !sent || s.forgetful {
			s.run.cmd.Process.Signal(sig) //nolint:errcheck // it may have ended already
			sent = true
		}
		select {
		case <-s.run.done:
			return s.run.panicked()
		case <-again.C:
		}
	}
	s.run.cmd.Process.Kill() //nolint:errcheck // it may have ended meanwhile
	<-s.run.done
	return fmt.Errorf("the broker did not end when asked to:\n%s", s.run.said())
}

// follow reads the output to its end and reaps the process.
func (r *run) follow(out io.ReadCloser, greeted func(string) bool) {
	defer close(r.done)
	defer out.Close()
	serving := r.serving
	for lines := bufio.NewScanner(out); lines.Scan(); {
		r.note(lines.Text())
		if serving != nil && greeted(lines.Text()) {
			close(serving)
			serving = nil
		}
	}
	r.cmd.Wait() //nolint:errcheck // how it ended stands in its output
}

func (r *run) note(line string) {
	const lines = 30
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.panic == "" {
		r.panic = suite.Panic(line)
	}
	r.tail = append(r.tail, line)
	r.tail = r.tail[max(0, len(r.tail)-lines):]
}

// panicked returns an error where the process panicked.
func (r *run) panicked() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.panic == "" {
		return nil
	}
	return fmt.Errorf("the broker panicked: %s\n%s", r.panic, strings.Join(r.tail, "\n"))
}

func (r *run) said() string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return strings.Join(r.tail, "\n")
}

// gate is where clients wait while the broker does not run. It numbers the
// broker's lives.
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

// pass waits until the broker runs, and tells which of its lives this is.
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

// in tells whether the broker still is, or was last, in that life.
func (g *gate) in(life int) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.life == life
}

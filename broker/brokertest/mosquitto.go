package brokertest

import (
	"bufio"
	"context"
	"crypto/rand"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"signalbox/broker"
	"signalbox/scripts/suite"
)

// Server is a Mosquitto that runs for one test. URLs of listeners that were
// not asked for are empty.
type Server struct {
	Addr          string // host:port of the plain listener
	URL           string // mqtt://…
	TLSURL        string // mqtts://…
	WSURL         string // ws://…
	WSSURL        string // wss://…
	AdminUsername string
	AdminPassword broker.Secret
	ConfigPath    string // mosquitto.conf
	DynsecPath    string // dynamic-security.json, as Mosquitto keeps it
	CA            *CA    // signed the certificate of the TLS listeners

	binary  string
	plugin  string
	options options
	process *process
}

// Target is the server as a stored connection with the admin's credentials.
func (s *Server) Target() broker.Target {
	return broker.Target{ID: "mosquitto", Rev: 1, URL: s.URL,
		Username: s.AdminUsername, Password: s.AdminPassword}
}

// Mosquitto starts a Mosquitto with dynamic security on free ports of
// 127.0.0.1, and stops it when the test is over. Its admin may do everything.
// Without a Mosquitto on the machine the test is skipped, or fails where the
// environment variable CI is set.
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
			t.Logf("the end of mosquitto's log:\n%s", s.process.log.tail())
		}
	})
	return s
}

// installed finds Mosquitto and its plugin.
func installed(t testing.TB, withPlugin bool) (binary, plugin string) {
	t.Helper()
	missing := t.Skipf
	if os.Getenv("CI") != "" {
		missing = t.Fatalf
	}
	for _, name := range []string{"mosquitto", "/usr/sbin/mosquitto", "/usr/local/sbin/mosquitto"} {
		if path, err := exec.LookPath(name); err == nil {
			binary = path
			break
		}
	}
	if binary == "" {
		missing("mosquitto is not installed (apt-get install mosquitto)")
	}
	if !withPlugin {
		return binary, ""
	}
	for _, dir := range []string{"/usr/lib/*", "/usr/lib", "/usr/lib64", "/usr/local/lib", "/opt/homebrew/lib"} {
		found, _ := filepath.Glob(filepath.Join(dir, "mosquitto_dynamic_security.so")) // the pattern is sound
		if len(found) > 0 {
			return binary, found[0]
		}
	}
	missing("mosquitto's dynamic security plugin is not installed")
	return "", ""
}

// startOnFreePorts starts Mosquitto. Its listeners for WebSockets cannot have a port on
// which connections are still being forgotten: then others are tried.
func (s *Server) startOnFreePorts(t testing.TB) {
	t.Helper()
	for range 10 {
		s.configure(t)
		err := s.launch(t)
		if err == nil {
			return
		}
		if !errors.Is(err, errPortTaken) {
			t.Fatalf("start mosquitto: %v; its log:\n%s", err, s.process.log.tail())
		}
	}
	t.Fatal("start mosquitto: every free port was taken by somebody else")
}

// Start starts a stopped server again, on the same ports and with what its
// dynamic-security.json holds.
func (s *Server) Start(t testing.TB) {
	t.Helper()
	if err := s.launch(t); err != nil {
		t.Fatalf("start mosquitto again: %v; its log:\n%s", err, s.process.log.tail())
	}
}

// Stop ends the server and waits for its end; a stopped one stays stopped.
func (s *Server) Stop(t testing.TB) {
	t.Helper()
	if err := s.process.stop(); err != nil {
		t.Errorf("stop mosquitto: %v", err)
	}
}

// errPortTaken is a start that failed because a port was in use.
var errPortTaken = errors.New("a port is in use")

// process is one run of Mosquitto.
type process struct {
	cmd  *exec.Cmd
	log  *tailLog
	done chan struct{} // closed when it has ended and its log was read
	once sync.Once
}

// launch starts Mosquitto and waits for the line by which it says that it
// serves.
func (s *Server) launch(t testing.TB) error {
	t.Helper()
	cmd := exec.Command(s.binary, "-c", s.ConfigPath)
	cmd.SysProcAttr = dieWithParent()
	out, err := cmd.StderrPipe()
	if err != nil {
		t.Fatalf("start mosquitto: %v", err)
	}
	p := &process{cmd: cmd, log: &tailLog{}, done: make(chan struct{})}
	s.process = p
	if err := cmd.Start(); err != nil {
		t.Fatalf("start mosquitto: %v", err)
	}
	serving := make(chan struct{})
	go p.follow(out, serving)
	ctx, cancel := context.WithTimeout(context.Background(), suite.HangLimit)
	defer cancel()
	select {
	case <-serving:
		return nil
	case <-p.done:
		return p.whyEnded()
	case <-ctx.Done():
		return errors.Join(ctx.Err(), p.stop())
	}
}

// follow reads the log to its end, says when the server serves, and reaps it.
func (p *process) follow(out io.Reader, serving chan<- struct{}) {
	defer close(p.done)
	lines := bufio.NewScanner(out)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		p.log.add(lines.Text())
		if serving != nil && strings.HasSuffix(lines.Text(), " running") {
			close(serving)
			serving = nil
		}
	}
	io.Copy(io.Discard, out) //nolint:errcheck // the log is at its end either way
	p.cmd.Wait()             //nolint:errcheck // how it ended stands in its log
}

func (p *process) whyEnded() error {
	for _, said := range []string{"Address already in use", "Unable to create websockets listener"} {
		if strings.Contains(p.log.tail(), said) {
			return errPortTaken
		}
	}
	return errors.New("it ended at once")
}

// stop asks the process to end, and kills it when it does not. It asks again
// and again, because Mosquitto forgets what it is asked while it starts.
func (p *process) stop() (err error) {
	p.once.Do(func() {
		deadline := time.NewTimer(suite.HangLimit)
		defer deadline.Stop()
		again := time.NewTicker(20 * time.Millisecond)
		defer again.Stop()
		for {
			p.cmd.Process.Signal(syscall.SIGTERM) //nolint:errcheck // it may have ended already
			select {
			case <-p.done:
				return
			case <-again.C:
			case <-deadline.C:
				p.cmd.Process.Kill() //nolint:errcheck // it may have ended meanwhile
				<-p.done
				err = errors.New("it did not end when asked to, and was killed")
				return
			}
		}
	})
	return err
}

// tailLog keeps the last lines of a log.
type tailLog struct {
	mu    sync.Mutex
	lines []string
}

// tailLines is how many lines a tailLog keeps; the oldest go.
const tailLines = 60

func (l *tailLog) add(line string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.lines = append(l.lines, line)
	if over := len(l.lines) - tailLines; over > 0 {
		l.lines = l.lines[over:]
	}
}

func (l *tailLog) tail() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return strings.Join(l.lines, "\n")
}

package flood

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"signalbox/scripts/suite"
)

// The credentials of the service under test.
const (
	adminName     = "admin"
	adminPassword = "staple for brokers"
	scrapeToken   = "token for whoever scrapes"
)

// server is a running service.
type server struct {
	tcp, ws string // host:port of the broker's listeners
	api     string // URL
	config  string // path
	cmd     *exec.Cmd
	done    chan struct{} // closed when it has ended and its output was read

	mu   sync.Mutex // guards said
	said bytes.Buffer
}

// configure writes a configuration: what is below broker in it is the test's.
func configure(t *testing.T, broker string) (path string) {
	t.Helper()
	dir := t.TempDir()
	text := fmt.Sprintf("data_dir: %s\nhttp: {listen: 127.0.0.1:0, metrics_token: %s}\n"+
		"admin: {password: correct horse battery}\nlog: {level: warn}\nbroker:\n  listen: 127.0.0.1:0\n  admin_password: %s\n"+
		"  password_iterations: 1000\n%s", filepath.Join(dir, "data"), scrapeToken, adminPassword, broker)
	path = filepath.Join(dir, "config.yaml")
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// serve starts the program and waits until it is ready.
func serve(t *testing.T, config string) *server {
	t.Helper()
	s := &server{config: config, done: make(chan struct{})}
	s.cmd = exec.Command(program, "serve", "--config", config)
	s.cmd.SysProcAttr = dieWithParent()
	s.cmd.Env = []string{"PATH=/usr/bin:/bin"}
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	s.cmd.Stdout, s.cmd.Stderr = w, w
	if err := errors.Join(s.cmd.Start(), w.Close()); err != nil {
		t.Fatal(err)
	}
	ready := make(chan struct{})
	go s.follow(r, ready)
	t.Cleanup(func() {
		s.end(syscall.SIGKILL)
		suite.NoPanic(t, s.output())
	})
	select {
	case <-ready:
	case <-s.done:
		t.Fatalf("the service ended at once:\n%s", s.output())
	case <-time.After(suite.HangLimit):
		t.Fatalf("the service is not ready:\n%s", s.output())
	}
	return s
}

// follow reads the output to its end and reaps the process.
func (s *server) follow(out io.ReadCloser, ready chan<- struct{}) {
	defer close(s.done)
	defer out.Close()
	for lines := bufio.NewScanner(out); lines.Scan(); {
		s.mu.Lock()
		fmt.Fprintln(&s.said, lines.Text())
		s.mu.Unlock()
		fields := strings.Fields(lines.Text())
		switch {
		case len(fields) < 2:
		case fields[0] == "API":
			s.api = fields[1]
		case fields[0] == "MQTT" && strings.HasPrefix(fields[1], "mqtt://"):
			s.tcp = strings.TrimPrefix(fields[1], "mqtt://")
		case fields[0] == "MQTT":
			s.ws = strings.TrimPrefix(fields[1], "ws://")
		case fields[0] == "data" && ready != nil:
			close(ready) // the last line of the greeting
			ready = nil
		}
	}
	s.cmd.Wait() //nolint:errcheck // how it ended stands in its output
}

func (s *server) output() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.said.String()
}

// end sends a signal and waits for the end.
func (s *server) end(sig syscall.Signal) {
	s.cmd.Process.Signal(sig) //nolint:errcheck // it may have ended
	<-s.done
}

// metric reads one of the figures that the service shows, 0 where there is none.
func (s *server) metric(ctx context.Context, name string) (float64, error) {
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, s.api+"/metrics", nil)
	if err != nil {
		return 0, err
	}
	r.Header.Set("Authorization", "Bearer "+scrapeToken)
	r.Close = true // so that no connection is counted among what is left over
	res, err := http.DefaultClient.Do(r)
	if err != nil {
		return 0, err
	}
	defer res.Body.Close() //nolint:errcheck // it was read
	for lines := bufio.NewScanner(res.Body); lines.Scan(); {
		if value, ok := strings.CutPrefix(lines.Text(), name+" "); ok {
			return strconv.ParseFloat(value, 64)
		}
	}
	if res.StatusCode != http.StatusOK {
		return 0, errors.New(res.Status)
	}
	return 0, nil
}

// memory reads a line of the kernel's account of the process, in bytes: VmRSS
// is what is resident, VmHWM the most that ever was.
func (s *server) memory(t *testing.T, what string) float64 {
	t.Helper()
	path := fmt.Sprintf("/proc/%d/status", s.cmd.Process.Pid)
	status, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(status)) {
		if fields := strings.Fields(line); len(fields) == 3 && fields[0] == what+":" {
			n, err := strconv.ParseFloat(fields[1], 64)
			if err != nil {
				t.Fatal(err)
			}
			return n * 1024
		}
	}
	t.Fatalf("%s has no %s", path, what)
	return 0
}

// eventually waits until a condition holds, which says why it does not yet.
func eventually(t *testing.T, holds func() error) {
	t.Helper()
	late := time.After(suite.HangLimit)
	look := time.NewTicker(20 * time.Millisecond)
	defer look.Stop()
	for {
		err := holds()
		if err == nil {
			return
		}
		select {
		case <-look.C:
		case <-late:
			t.Fatalf("waited in vain: %v", err)
		}
	}
}

// mib shows bytes.
func mib(bytes float64) string { return fmt.Sprintf("%.1f MiB", bytes/(1<<20)) }

package peertest

import (
	"bufio"
	"context"
	"errors"
	"io"
	"os/exec"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"signalbox/scripts/suite"
)

// peer is a server that can be restarted with its data.
type peer struct {
	name    string                              // for messages
	binary  string                              //
	dir     string                              // working directory
	serves  string                              // part of the log line that reports that it is ready
	taken   string                              // part of the log line that reports that its port is in use
	end     syscall.Signal                      // ends it cleanly
	command func(t testing.TB) (words []string) // its arguments

	run *run
}

// run is one run of a server.
type run struct {
	cmd    *exec.Cmd
	log    tail
	taken  bool          // read after ended is closed
	serves chan struct{} // closed when it is ready
	ended  chan struct{} // closed when it and its children have ended
}

var errPortTaken = errors.New("its port is taken")

// first starts the server on a free port, and ends it with the test. It calls choose before each
// attempt, because another process may take the port meanwhile.
func (p *peer) first(t testing.TB, choose func()) {
	t.Helper()
	for range 10 {
		choose()
		err := p.launch(t)
		if err == nil {
			t.Cleanup(func() { p.finish(t) })
			return
		}
		if !errors.Is(err, errPortTaken) {
			t.Fatalf("start %s: %v; its log:\n%s", p.name, err, p.run.log.text())
		}
	}
	t.Fatalf("start %s: every free port was taken by somebody else", p.name)
}

// finish ends the server after the test.
func (p *peer) finish(t testing.TB) {
	p.Stop(t)
	if t.Failed() {
		t.Logf("the end of the log of %s:\n%s", p.name, p.run.log.text())
	}
}

// Start starts a stopped or killed server again, on the same port with the same data.
func (p *peer) Start(t testing.TB) {
	t.Helper()
	if err := p.launch(t); err != nil {
		t.Fatalf("start %s again: %v; its log:\n%s", p.name, err, p.run.log.text())
	}
}

// Stop ends the server and its connections cleanly. It does nothing if the server has ended.
func (p *peer) Stop(t testing.TB) {
	t.Helper()
	p.halt(t, p.end)
}

// Kill kills the server.
func (p *peer) Kill(t testing.TB) {
	t.Helper()
	p.halt(t, syscall.SIGKILL)
}

func (p *peer) launch(t testing.TB) error {
	t.Helper()
	cmd := exec.Command(p.binary, p.command(t)...)
	cmd.Dir = p.dir
	cmd.SysProcAttr = attributes(t)
	out, in := io.Pipe()
	cmd.Stdout, cmd.Stderr = in, in
	r := &run{cmd: cmd, serves: make(chan struct{}), ended: make(chan struct{})}
	p.run = r
	if err := cmd.Start(); err != nil {
		t.Fatalf("start %s: %v", p.name, err)
	}
	go func() {
		cmd.Wait() //nolint:errcheck // the log shows how it ended
		in.Close()
	}()
	go p.follow(r, out)
	ctx, cancel := context.WithTimeout(t.Context(), suite.HangLimit)
	defer cancel()
	select {
	case <-r.serves:
		return nil
	case <-r.ended:
		if r.taken {
			return errPortTaken
		}
		return errors.New("it ended at once")
	case <-ctx.Done():
		p.halt(t, syscall.SIGKILL)
		return ctx.Err()
	}
}

// follow reads the log to its end, when the last child process has ended.
func (p *peer) follow(r *run, out io.Reader) {
	defer close(r.ended)
	serving := r.serves
	lines := bufio.NewScanner(out)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		line := lines.Text()
		r.log.add(line)
		r.taken = r.taken || strings.Contains(line, p.taken)
		if serving != nil && strings.Contains(line, p.serves) {
			close(serving)
			serving = nil
		}
	}
	io.Copy(io.Discard, out) //nolint:errcheck // the log has ended either way
}

// halt sends a signal and waits for the end of the server.
func (p *peer) halt(t testing.TB, s syscall.Signal) {
	t.Helper()
	p.run.cmd.Process.Signal(s) //nolint:errcheck // it may have ended already
	deadline := time.NewTimer(suite.HangLimit)
	defer deadline.Stop()
	select {
	case <-p.run.ended:
		return
	case <-deadline.C:
		p.run.cmd.Process.Kill() //nolint:errcheck // it may have ended meanwhile
		t.Errorf("%s did not end when asked to, and was killed; its log:\n%s", p.name, p.run.log.text())
	}
}

// tail keeps the last lines of a log.
type tail struct {
	mu    sync.Mutex
	lines []string
}

// tailLines is the maximum number of lines of a tail.
const tailLines = 60

func (l *tail) add(line string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.lines = append(l.lines, line)
	if over := len(l.lines) - tailLines; over > 0 {
		l.lines = l.lines[over:]
	}
}

func (l *tail) text() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return strings.Join(l.lines, "\n")
}

// Package process builds the program and runs it as a child of a test, as an
// operator runs it: with settings, until it is ready, and until it has ended.
//
// It is imported by tests only. It must not import anything of this module but
// scripts/suite.
package process

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"sync"
	"time"

	"signalbox/scripts/suite"
)

// Process is one run of a program. It is killed when the test process ends
// before it, where the system can do that.
type Process struct {
	Stdout, Stderr Output

	// Repeat sends the signal of End again and again: Mosquitto loses one that
	// comes while it starts.
	Repeat bool

	cmd   *exec.Cmd
	ready chan struct{} // closed when the program is ready
	done  chan struct{} // closed when it has ended and its output was read
}

// Start starts a program without waiting for anything. Its output is kept, unless
// cmd sends it elsewhere. ready is called with each line of it until it reports
// that the program is ready.
func Start(cmd *exec.Cmd, ready func(line string) bool) (*Process, error) {
	p := &Process{cmd: cmd, ready: make(chan struct{}), done: make(chan struct{})}
	var mu sync.Mutex // guards serving; the two outputs are written at the same time
	serving := false
	read := func(line string) {
		mu.Lock()
		defer mu.Unlock()
		if !serving && ready(line) {
			serving = true
			close(p.ready)
		}
	}
	p.Stdout.line, p.Stderr.line = read, read
	if cmd.Stdout == nil {
		cmd.Stdout = &p.Stdout
	}
	if cmd.Stderr == nil {
		cmd.Stderr = &p.Stderr
	}
	if cmd.SysProcAttr == nil {
		cmd.SysProcAttr = DieWithParent()
	}
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	go func() {
		defer close(p.done)
		cmd.Wait() //nolint:errcheck // ExitCode returns how it ended
	}()
	return p, nil
}

// AwaitReady waits until the program is ready. It returns an error with the output
// of a program that ends instead.
func (p *Process) AwaitReady(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, suite.HangLimit)
	defer cancel()
	select {
	case <-p.ready:
		return nil
	case <-p.done:
	case <-ctx.Done():
		return fmt.Errorf("the program is not ready: %w:\n%s", ctx.Err(), p.Tail())
	}
	select {
	case <-p.ready: // and has ended since
		return nil
	default:
		return fmt.Errorf("the program ended with code %d before it was ready:\n%s", p.ExitCode(), p.Tail())
	}
}

// Signal sends a signal, which a process that has ended does not get.
func (p *Process) Signal(sig os.Signal) { p.cmd.Process.Signal(sig) } //nolint:errcheck // it may have ended

// Kill ends the process as a power cut does, as far as the process can notice.
func (p *Process) Kill() {
	p.Signal(os.Kill)
	<-p.done
}

// End sends a signal and waits for the end of the process, as AwaitEnd does.
func (p *Process) End(sig os.Signal) error {
	p.Signal(sig)
	return p.awaitEnd(func() {
		if p.Repeat {
			p.Signal(sig)
		}
	})
}

// AwaitEnd waits for the end of a process that was told to stop. It kills one that
// does not end, and returns an error.
func (p *Process) AwaitEnd() error { return p.awaitEnd(func() {}) }

func (p *Process) awaitEnd(meanwhile func()) error {
	again := time.NewTicker(50 * time.Millisecond)
	defer again.Stop()
	late := time.After(suite.HangLimit)
	for {
		select {
		case <-p.done:
			return nil
		case <-again.C:
			meanwhile()
		case <-late:
			p.Kill()
			return fmt.Errorf("still running %v after it was told to stop:\n%s", suite.HangLimit, p.Tail())
		}
	}
}

// Done returns a channel that is closed when the process has ended.
func (p *Process) Done() <-chan struct{} { return p.done }

// Ended reports whether the process has ended.
func (p *Process) Ended() bool {
	select {
	case <-p.done:
		return true
	default:
		return false
	}
}

// ExitCode returns the exit code of a process that has ended, -1 after a signal.
func (p *Process) ExitCode() int {
	<-p.done
	return p.cmd.ProcessState.ExitCode()
}

// Pid returns the number of the process.
func (p *Process) Pid() int { return p.cmd.Process.Pid }

// Panic returns an error where the process has panicked.
func (p *Process) Panic() error {
	if found := suite.Panic(p.Stderr.String()); found != "" {
		return errors.New("the process panicked:\n" + found)
	}
	return nil
}

// Tail returns the last lines of the output.
func (p *Process) Tail() string {
	const most = 30
	lines := strings.SplitAfter(p.Stdout.String()+p.Stderr.String(), "\n")
	return strings.Join(lines[max(0, len(lines)-most):], "")
}

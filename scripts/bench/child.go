//go:build linux

package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// startStopTimeout bounds the time that a program may take to start or to stop.
const startStopTimeout = 2 * time.Minute

// child is a program that this one has started and has to stop.
type child struct {
	name string
	cmd  *exec.Cmd
	done chan struct{} // closed after it has ended and its output was read

	mu   sync.Mutex // protects tail
	tail []string   // its last lines
}

// tailLines is how many lines of a child's output are kept for its errors.
const tailLines = 15

// launch starts a program and waits until ready has accepted the line of its output
// that announces that it serves.
func launch(ctx context.Context, env []string, ready func(line string) bool, name string, args ...string) (*child, error) {
	cmd := exec.CommandContext(ctx, name, args...)
	cmd.Env = env
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	r, w, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	cmd.Stdout, cmd.Stderr = w, w
	err = errors.Join(cmd.Start(), w.Close())
	if err != nil {
		return nil, errors.Join(err, r.Close())
	}
	c := &child{name: name, cmd: cmd, done: make(chan struct{})}
	serving := make(chan struct{})
	go c.follow(r, ready, serving)
	return c, c.await(ctx, serving)
}

// await waits until the child serves, and stops it if it does not.
func (c *child) await(ctx context.Context, serving <-chan struct{}) error {
	ctx, cancel := context.WithTimeout(ctx, startStopTimeout)
	defer cancel()
	select {
	case <-serving:
		return nil
	case <-c.done:
		return fmt.Errorf("%s ended at once:\n%s", c.name, c.said())
	case <-ctx.Done():
		return errors.Join(fmt.Errorf("%s does not serve: %w; it said:\n%s", c.name, ctx.Err(), c.said()), c.stop())
	}
}

// follow reads the output to its end and reaps the process.
func (c *child) follow(r io.ReadCloser, ready func(string) bool, serving chan<- struct{}) {
	defer close(c.done)
	defer r.Close() //nolint:errcheck // it was only read
	for lines := bufio.NewScanner(r); lines.Scan(); {
		c.note(lines.Text())
		if serving != nil && ready(lines.Text()) {
			close(serving)
			serving = nil
		}
	}
	io.Copy(io.Discard, r) //nolint:errcheck // the output is at its end either way
	c.cmd.Wait()           //nolint:errcheck // its output contains the reason
}

func (c *child) note(line string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.tail = append(c.tail, line)
	if len(c.tail) > tailLines {
		c.tail = c.tail[1:]
	}
}

func (c *child) said() string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return strings.Join(c.tail, "\n")
}

// stop asks the child to end and waits for it. It repeats the signal, because Mosquitto
// ignores one that arrives during its start. A child that does not end is killed, which
// is an error.
func (c *child) stop() error {
	again := time.NewTicker(50 * time.Millisecond)
	defer again.Stop()
	for deadline := time.Now().Add(startStopTimeout); time.Now().Before(deadline); {
		c.cmd.Process.Signal(syscall.SIGTERM) //nolint:errcheck // it may have ended already
		select {
		case <-c.done:
			return nil
		case <-again.C:
		}
	}
	c.cmd.Process.Kill() //nolint:errcheck // it may have ended in the meantime
	<-c.done
	return fmt.Errorf("%s did not end when asked to, and was killed", c.name)
}

// cpu returns the processor time that the child has used so far. The clock number is
// derived as described in clock_getcpuclockid(3).
func (c *child) cpu() (time.Duration, error) {
	const schedulerClock = 2
	var ts unix.Timespec
	if err := unix.ClockGettime(int32(^c.cmd.Process.Pid<<3|schedulerClock), &ts); err != nil {
		return 0, fmt.Errorf("processor time of %s: %w", c.name, err)
	}
	return time.Duration(ts.Nano()), nil
}

// sumCPU returns the sum of the processor times of several processes.
func sumCPU(one *child, others []*child) (sum time.Duration, err error) {
	for _, c := range append([]*child{one}, others...) {
		spent, err := c.cpu()
		if err != nil {
			return 0, err
		}
		sum += spent
	}
	return sum, nil
}

// kill ends the child without warning, which to the process is the same as a loss of
// power.
func (c *child) kill() {
	c.cmd.Process.Kill() //nolint:errcheck // it may have ended already
	<-c.done
}

// memory returns a line of /proc/PID/status in MiB: VmRSS is the resident memory now,
// VmHWM its peak since the last call of forgetPeak.
func (c *child) memory(line string) (mib float64, err error) {
	status, err := os.ReadFile(c.proc("status"))
	if err != nil {
		return 0, err
	}
	for l := range strings.Lines(string(status)) {
		if rest, ok := strings.CutPrefix(l, line+":"); ok {
			kib, err := strconv.ParseFloat(strings.Fields(rest)[0], 64)
			return kib / 1024, err
		}
	}
	return 0, fmt.Errorf("%s has no %s", c.proc("status"), line)
}

// forgetPeak resets VmHWM.
func (c *child) forgetPeak() error { return os.WriteFile(c.proc("clear_refs"), []byte("5"), 0) }

func (c *child) proc(file string) string { return fmt.Sprintf("/proc/%d/%s", c.cmd.Process.Pid, file) }

// firstLine returns the first line of a program's output, or the reason for its
// absence.
func firstLine(ctx context.Context, name string, args ...string) string {
	out, err := exec.CommandContext(ctx, name, args...).CombinedOutput()
	line, _, _ := strings.Cut(string(out), "\n")
	if line == "" && err != nil {
		return fmt.Sprintf("%s: %v", name, err)
	}
	return line
}

//go:build linux

package main

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"syscall"
	"testing"
)

func TestUntil(t *testing.T) {
	t.Parallel()
	asked := 0
	if err := until(t.Context(), "the third time", func() (bool, error) { asked++; return asked == 3, nil }); err != nil || asked != 3 {
		t.Errorf("got %v after %d times, want 3", err, asked)
	}
	broken := errors.New("broken")
	if err := until(t.Context(), "never", func() (bool, error) { return false, broken }); !errors.Is(err, broken) {
		t.Errorf("got %v, want %v", err, broken)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := until(ctx, "never", func() (bool, error) { return false, nil }); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v, want %v", err, context.Canceled)
	}
}

func TestFreePorts_differ(t *testing.T) {
	t.Parallel()
	ports, err := freePorts(3)
	if err != nil || len(ports) != 3 || ports[0] == ports[1] || ports[1] == ports[2] || ports[0] == ports[2] {
		t.Errorf("got %v and %v, want three", ports, err)
	}
}

// TestSumCPU adds up the clocks of processes.
func TestSumCPU(t *testing.T) {
	t.Parallel()
	self := &child{name: "self", cmd: &exec.Cmd{Process: &os.Process{Pid: os.Getpid()}}}
	one, err := sumCPU(self, nil)
	if err != nil {
		t.Fatal(err)
	}
	three, err := sumCPU(self, []*child{self, self})
	if err != nil || three < 3*one {
		t.Errorf("got %v and %v, want at least three times %v", three, err, one)
	}
	gone := &child{name: "gone", cmd: &exec.Cmd{Process: &os.Process{Pid: 1 << 22}}}
	if _, err := sumCPU(self, []*child{gone}); err == nil {
		t.Error("a process that does not exist has processor time")
	}
}

// TestKill ends a child at once.
func TestKill(t *testing.T) {
	t.Parallel()
	c, err := launch(t.Context(), nil, func(string) bool { return true }, "/bin/sh", "-c", "trap '' TERM; echo up; exec sleep 600")
	if err != nil {
		t.Fatal(err)
	}
	c.kill()
	if how := c.cmd.ProcessState.Sys().(syscall.WaitStatus); how.Signal() != syscall.SIGKILL {
		t.Errorf("it ended otherwise: %v", c.cmd.ProcessState)
	}
}

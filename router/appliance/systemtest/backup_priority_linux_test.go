package systemtest

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"
)

// TestBackupPriority looks at the threads of a command that reads a backup: all yield the
// processor to a service beside them.
func TestBackupPriority(t *testing.T) {
	t.Parallel()
	pipe := filepath.Join(t.TempDir(), "backup")
	if err := unix.Mkfifo(pipe, 0o600); err != nil {
		t.Fatal(err)
	}
	cmd := prepare(nil, "backup", "verify", pipe)
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() {
		err := cmd.Wait()
		os.OpenFile(pipe, os.O_RDONLY|unix.O_NONBLOCK, 0) //nolint:errcheck // so that the open below does not wait for a command that has ended too early
		ended <- err
	}()
	w, err := os.OpenFile(pipe, os.O_WRONLY, 0) // when the command opens it
	if err != nil {
		t.Fatal(err)
	}
	threads, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/stat", cmd.Process.Pid))
	if err != nil || len(threads) == 0 {
		t.Fatal(threads, err)
	}
	for _, thread := range threads {
		stat, err := os.ReadFile(thread)
		if err != nil {
			t.Fatal(err)
		}
		const niceField = 16 // of those after the name, proc_pid_stat(5)
		fields := bytes.Fields(stat[bytes.LastIndexByte(stat, ')')+1:])
		if got := string(fields[niceField]); got != "10" {
			t.Errorf("%s: nice value %s", thread, got)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	if err := <-ended; cmd.ProcessState.ExitCode() != 1 {
		t.Errorf("got %v for an empty backup", err)
	}
}

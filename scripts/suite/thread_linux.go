package suite

import (
	"runtime"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// ThreadTime returns the processor time that the caller's thread has used, to
// which other work on the machine does not add. It ties the goroutine to the
// thread.
func ThreadTime(t testing.TB) time.Duration {
	t.Helper()
	runtime.LockOSThread()
	var used unix.Rusage
	if err := unix.Getrusage(unix.RUSAGE_THREAD, &used); err != nil {
		t.Fatal(err)
	}
	return time.Duration(used.Utime.Nano() + used.Stime.Nano())
}

package suite

import (
	"runtime"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// ThreadTime returns the processor time that the caller's thread has used, which does
// not depend on other work on the machine. It locks the goroutine to the thread.
func ThreadTime(t testing.TB) time.Duration {
	t.Helper()
	runtime.LockOSThread()
	var used unix.Rusage
	if err := unix.Getrusage(unix.RUSAGE_THREAD, &used); err != nil {
		t.Fatal(err)
	}
	return time.Duration(used.Utime.Nano() + used.Stime.Nano())
}

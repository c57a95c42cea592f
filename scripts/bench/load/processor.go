//go:build linux

package load

import (
	"time"

	"golang.org/x/sys/unix"
)

// ProcessorTime returns the processor time that a process has used so far, 0 if there
// is no such process. The clock number is derived as described in
// clock_getcpuclockid(3).
func ProcessorTime(pid int) time.Duration {
	const schedulerClock = 2
	var ts unix.Timespec
	if pid == 0 || unix.ClockGettime(int32(^pid<<3|schedulerClock), &ts) != nil {
		return 0
	}
	return time.Duration(ts.Nano())
}

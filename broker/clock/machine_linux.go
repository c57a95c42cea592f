package clock

import (
	"os"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// bootID is a random number that the kernel makes when it starts.
const bootID = "/proc/sys/kernel/random/boot_id"

// kernelClocks returns what Linux knows beside the clocks of Go, whose monotonic one
// stands still while the machine is suspended.
func kernelClocks() (suspended func() time.Duration, boot func() (string, time.Duration)) {
	if _, ok := read(unix.CLOCK_BOOTTIME); !ok {
		return nil, nil
	}
	suspended = func() time.Duration {
		awake, _ := read(unix.CLOCK_MONOTONIC)
		all, _ := read(unix.CLOCK_BOOTTIME)
		return all - awake
	}
	text, err := os.ReadFile(bootID)
	id := strings.TrimSpace(string(text))
	if err != nil || id == "" {
		return suspended, nil
	}
	return suspended, func() (string, time.Duration) {
		since, _ := read(unix.CLOCK_BOOTTIME)
		return id, since
	}
}

func read(clock int32) (time.Duration, bool) {
	var t unix.Timespec
	err := unix.ClockGettime(clock, &t)
	return time.Duration(t.Nano()), err == nil
}

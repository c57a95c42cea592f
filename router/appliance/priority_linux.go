package appliance

import (
	"os"
	"strconv"

	"golang.org/x/sys/unix"
)

// LowerPriority lowers the priority of this process below that of a service beside it, the nice value 10,
// unless it has a lower one already. On Linux each thread has a value of its own, which those that
// it creates inherit, so it looks for more threads until all have it, a few times at most.
func LowerPriority() {
	for pass, lowered := 0, true; lowered && pass < 10; pass++ {
		lowered = false
		threads, _ := os.ReadDir("/proc/self/task") //nolint:errcheck // without them the priority stays what it is
		for _, t := range threads {
			id, err := strconv.Atoi(t.Name())
			if err != nil {
				continue
			}
			value, err := unix.Getpriority(unix.PRIO_PROCESS, id)
			if err == nil && niceBias-value < lowPriority && unix.Setpriority(unix.PRIO_PROCESS, id, lowPriority) == nil {
				lowered = true
			}
		}
	}
}

const (
	lowPriority = 10
	niceBias    = 20 // the system call returns 20 less the nice value, getpriority(2)
)

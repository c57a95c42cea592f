package appliance

import (
	"os"
	"strconv"

	"golang.org/x/sys/unix"
)

// LowerPriority makes this process yield the processor and the disk to others, such as a service
// beside it: as a process with the nice value 10. On Linux each thread has one of its own, which
// those that it creates inherit, and which decides its priority for the disk (ioprio_set(2)).
func LowerPriority() {
	threads, _ := os.ReadDir("/proc/self/task") //nolint:errcheck // without them the priority stays what it is
	for _, t := range threads {
		if id, err := strconv.Atoi(t.Name()); err == nil {
			unix.Setpriority(unix.PRIO_PROCESS, id, lowPriority) //nolint:errcheck // the thread may have ended
		}
	}
}

const lowPriority = 10

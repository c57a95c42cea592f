//go:build unix && !linux

package appliance

import "golang.org/x/sys/unix"

// LowerPriority makes this process yield the processor to others, such as a service beside it: as
// a process with the nice value 10.
func LowerPriority() {
	unix.Setpriority(unix.PRIO_PROCESS, 0, 10) //nolint:errcheck // without it the priority stays what it is
}

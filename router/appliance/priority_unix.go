//go:build unix && !linux

package appliance

import "golang.org/x/sys/unix"

// LowerPriority lowers the priority of this process below that of a service beside it, the nice value 10,
// unless it has a lower one already.
func LowerPriority() {
	const lowPriority = 10
	if value, err := unix.Getpriority(unix.PRIO_PROCESS, 0); err == nil && value < lowPriority {
		unix.Setpriority(unix.PRIO_PROCESS, 0, lowPriority) //nolint:errcheck // without it the priority stays what it is
	}
}

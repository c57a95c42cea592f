//go:build unix

package appliance

import (
	"math"

	"golang.org/x/sys/unix"
)

// openFiles raises the limit on open files as far as possible, and returns it; 0 if it
// is unknown.
func openFiles() int {
	var limit unix.Rlimit
	if unix.Getrlimit(unix.RLIMIT_NOFILE, &limit) != nil {
		return 0
	}
	if limit.Cur < limit.Max {
		raised := limit
		raised.Cur = raised.Max
		if unix.Setrlimit(unix.RLIMIT_NOFILE, &raised) == nil {
			limit = raised
		}
	}
	return int(min(uint64(limit.Cur), math.MaxInt32)) //nolint:unconvert // signed on some systems
}

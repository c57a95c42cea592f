//go:build unix && !linux

package listen

import (
	"errors"
	"syscall"
)

// hasEnded reports whether the peer sends nothing more. Where something is still
// to be read this system cannot tell.
func hasEnded(fd uintptr) bool {
	var one [1]byte
	for {
		n, _, err := syscall.Recvfrom(int(fd), one[:], syscall.MSG_PEEK)
		if !errors.Is(err, syscall.EINTR) {
			return n == 0 && !errors.Is(err, syscall.EAGAIN)
		}
	}
}

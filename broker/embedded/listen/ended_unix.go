//go:build unix && !linux

package listen

import (
	"errors"
	"syscall"
)

// hasEnded reports whether the peer sends nothing more. While unread data is left, this
// system cannot detect it.
func hasEnded(fd uintptr) bool {
	var one [1]byte
	for {
		n, _, err := syscall.Recvfrom(int(fd), one[:], syscall.MSG_PEEK)
		if !errors.Is(err, syscall.EINTR) {
			return n == 0 && !errors.Is(err, syscall.EAGAIN)
		}
	}
}

package listen

import (
	"errors"

	"golang.org/x/sys/unix"
)

// hasEnded reports whether the peer sends nothing more, even if unread data is left.
func hasEnded(fd uintptr) bool {
	poll := []unix.PollFd{{Fd: int32(fd), Events: unix.POLLRDHUP}}
	for {
		n, err := unix.Poll(poll, 0)
		if !errors.Is(err, unix.EINTR) {
			return n > 0 || err != nil
		}
	}
}

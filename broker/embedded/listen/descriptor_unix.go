//go:build unix

package listen

import (
	"errors"
	"os"
	"syscall"
	"time"
)

// Wait waits until there is something to read, without a buffer for it.
func (s *socket) Wait() error {
	raw, err := s.SyscallConn()
	if err != nil {
		return err
	}
	return raw.Read(func(fd uintptr) bool {
		var one [1]byte
		for {
			_, _, err := syscall.Recvfrom(int(fd), one[:], syscall.MSG_PEEK)
			if !errors.Is(err, syscall.EINTR) {
				return !errors.Is(err, syscall.EAGAIN)
			}
		}
	})
}

// awaitEnd waits until the peer sends nothing more, or the socket was shut down.
func (s *socket) awaitEnd() error {
	raw, err := s.SyscallConn()
	if err != nil {
		return err
	}
	return raw.Read(hasEnded)
}

// writeAtOnce writes what the system takes without blocking. There must be no other writer.
func (s *socket) writeAtOnce(p []byte) (n int, err error) {
	raw, err := s.SyscallConn()
	if err != nil {
		return 0, err
	}
	s.descriptor.SetWriteDeadline(time.Time{}) //nolint:errcheck // the write returns the error
	outer := raw.Write(func(fd uintptr) bool {
		n, err = syscall.Write(int(fd), p)
		return true
	})
	return max(n, 0), errors.Join(outer, err)
}

// ours reports whether a file belongs to the user of this process.
func ours(info os.FileInfo) bool {
	stat, ok := info.Sys().(*syscall.Stat_t)
	return ok && int(stat.Uid) == os.Geteuid()
}

//go:build unix && !linux

package poll

import (
	"errors"
	"io"
	"syscall"
)

func closeDescriptor(fd int) {
	syscall.Close(fd) //nolint:errcheck // nothing left to do with it
}

// ReadDescriptor reads what is available. It returns EAGAIN if nothing is, and io.EOF at the end.
func ReadDescriptor(fd uintptr, p []byte) (int, error) {
	for {
		n, err := syscall.Read(int(fd), p)
		switch {
		case errors.Is(err, syscall.EINTR):
		case n == 0 && err == nil:
			return 0, io.EOF
		default:
			return max(n, 0), err
		}
	}
}

// WriteDescriptor writes as much as the send buffer accepts. It returns EAGAIN if that is nothing.
func WriteDescriptor(fd uintptr, p []byte) (int, error) {
	for {
		n, err := syscall.Write(int(fd), p)
		if !errors.Is(err, syscall.EINTR) {
			return max(n, 0), err
		}
	}
}

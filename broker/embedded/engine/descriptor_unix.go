//go:build unix && !linux

package engine

import (
	"errors"
	"io"
	"syscall"
)

// errEnd reports the end of the stream.
var errEnd = io.EOF

// readDescriptor reads what is available.
func readDescriptor(fd uintptr, p []byte) (int, error) {
	for {
		n, err := syscall.Read(int(fd), p)
		if !errors.Is(err, syscall.EINTR) {
			return max(n, 0), err
		}
	}
}

// writeDescriptor writes as much as the send buffer accepts.
func writeDescriptor(fd uintptr, p []byte) (int, error) {
	for {
		n, err := syscall.Write(int(fd), p)
		if !errors.Is(err, syscall.EINTR) {
			return max(n, 0), err
		}
	}
}

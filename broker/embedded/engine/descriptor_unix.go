//go:build unix && !linux

package engine

import (
	"errors"
	"io"
	"syscall"
)

// errEnd is the end of what a peer sends.
var errEnd = io.EOF

// readDescriptor reads what is there.
func readDescriptor(fd uintptr, p []byte) (int, error) {
	for {
		n, err := syscall.Read(int(fd), p)
		if !errors.Is(err, syscall.EINTR) {
			return max(n, 0), err
		}
	}
}

// writeDescriptor writes what there is room for.
func writeDescriptor(fd uintptr, p []byte) (int, error) {
	for {
		n, err := syscall.Write(int(fd), p)
		if !errors.Is(err, syscall.EINTR) {
			return max(n, 0), err
		}
	}
}

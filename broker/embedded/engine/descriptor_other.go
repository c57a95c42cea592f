//go:build !unix

package engine

import (
	"io"
	"syscall"
)

// errEnd is the end of what a peer sends.
var errEnd = io.EOF

// Elsewhere no Socket has a Raw; these are never called.

func readDescriptor(uintptr, []byte) (int, error) { return 0, syscall.EINVAL }

func writeDescriptor(uintptr, []byte) (int, error) { return 0, syscall.EINVAL }

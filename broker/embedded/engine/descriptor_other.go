//go:build !unix

package engine

import (
	"io"
	"syscall"
)

// errEnd reports the end of the stream.
var errEnd = io.EOF

// On other systems no Socket has a Raw, so these are never called.

func readDescriptor(uintptr, []byte) (int, error) { return 0, syscall.EINVAL }

func writeDescriptor(uintptr, []byte) (int, error) { return 0, syscall.EINVAL }

//go:build !unix

package poll

import "syscall"

// ReadDescriptor is never called: on this system no connection is read by its descriptor.
func ReadDescriptor(uintptr, []byte) (int, error) { return 0, syscall.EINVAL }

// WriteDescriptor is never called.
func WriteDescriptor(uintptr, []byte) (int, error) { return 0, syscall.EINVAL }

//go:build linux

package main

import (
	"fmt"

	"golang.org/x/sys/unix"
)

// spareFiles is the number of files that a process opens besides its connections.
const spareFiles = 1_000

// allowFiles raises the limit on open files of this program, and of those that it
// starts from now on, to that many connections.
func allowFiles(connections int) error {
	var now unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &now); err != nil {
		return fmt.Errorf("limit of open files: %w", err)
	}
	need := uint64(connections + spareFiles)
	now.Cur = max(now.Max, need)
	now.Max = now.Cur // only root may exceed the hard limit
	if err := unix.Setrlimit(unix.RLIMIT_NOFILE, &now); err != nil {
		return fmt.Errorf("%d open files: %w", need, err)
	}
	return nil
}

//go:build linux

package main

import (
	"fmt"

	"golang.org/x/sys/unix"
)

// spareFiles is what a process opens beside its connections.
const spareFiles = 1_000

// allowFiles lets this program, and those that it starts from now on, have that
// many connections open.
func allowFiles(connections int) error {
	var now unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &now); err != nil {
		return fmt.Errorf("limit of open files: %w", err)
	}
	need := uint64(connections + spareFiles)
	now.Cur = max(now.Max, need)
	now.Max = now.Cur // beyond what is allowed, which only root may do
	if err := unix.Setrlimit(unix.RLIMIT_NOFILE, &now); err != nil {
		return fmt.Errorf("%d open files: %w", need, err)
	}
	return nil
}

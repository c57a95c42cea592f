//go:build !linux

package peertest

import (
	"syscall"
	"testing"
)

// attributes returns nil: servers run as the test's user, and survive a killed test.
func attributes(testing.TB) *syscall.SysProcAttr { return nil }

// owner returns a function that does nothing.
func owner(testing.TB) func(path string) error { return func(string) error { return nil } }

//go:build !linux

package peertest

import (
	"syscall"
	"testing"
)

// attributes have no counterpart here: servers run as the test's user, and
// outlive a killed test.
func attributes(testing.TB) *syscall.SysProcAttr { return nil }

// owner changes nothing here.
func owner(testing.TB) func(path string) error { return func(string) error { return nil } }

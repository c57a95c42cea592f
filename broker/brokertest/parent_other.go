//go:build !linux

package brokertest

import "syscall"

// dieWithParent has no counterpart here: a child outlives a killed test.
func dieWithParent() *syscall.SysProcAttr { return nil }

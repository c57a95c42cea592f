//go:build !linux

package systemtest

import "syscall"

// dieWithParent is for Linux only; elsewhere the end of the test ends the child.
func dieWithParent() *syscall.SysProcAttr { return &syscall.SysProcAttr{} }

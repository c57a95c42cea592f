//go:build !linux

package flood

import "syscall"

// dieWithParent does nothing where the system cannot do it.
func dieWithParent() *syscall.SysProcAttr { return nil }

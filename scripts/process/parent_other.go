//go:build !linux

package process

import "syscall"

// DieWithParent returns attributes that change nothing: only Linux can do this, and
// elsewhere a child outlives a test process that is killed.
func DieWithParent() *syscall.SysProcAttr { return &syscall.SysProcAttr{} }

package systemtest

import "syscall"

// dieWithParent makes the kernel end a child whose test process is gone, also
// when that was killed and could not clean up.
func dieWithParent() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
}

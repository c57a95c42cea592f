package process

import "syscall"

// DieWithParent returns attributes with which the kernel kills a child whose test
// process has ended, also when that was killed and could not clean up.
func DieWithParent() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
}

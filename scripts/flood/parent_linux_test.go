package flood

import "syscall"

// dieWithParent has a broker killed when the test process ends before it.
func dieWithParent() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
}

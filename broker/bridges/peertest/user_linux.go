package peertest

import (
	"os"
	"os/user"
	"strconv"
	"syscall"
	"testing"

	"signalbox/scripts/process"
)

// attributes make the kernel end a server whose test process has ended, even if that was killed,
// and drop root's privileges, with which some servers refuse to run.
func attributes(t testing.TB) *syscall.SysProcAttr {
	t.Helper()
	a := process.DieWithParent()
	if uid, gid, other := unprivileged(t); other {
		a.Credential = &syscall.Credential{Uid: uid, Gid: gid}
	}
	return a
}

// owner returns a function that makes the servers' user the owner of a file.
func owner(t testing.TB) func(path string) error {
	t.Helper()
	uid, gid, other := unprivileged(t)
	if !other {
		return func(string) error { return nil }
	}
	return func(path string) error { return os.Chown(path, int(uid), int(gid)) }
}

// unprivileged returns the user that servers run as, if it is not the current one.
func unprivileged(t testing.TB) (uid, gid uint32, other bool) {
	t.Helper()
	if os.Getuid() != 0 {
		return 0, 0, false
	}
	account, err := user.Lookup("nobody")
	if err != nil {
		t.Fatalf("find a user for servers: %v", err)
	}
	u, err := strconv.ParseUint(account.Uid, 10, 32)
	if err != nil {
		t.Fatalf("find a user for servers: %v", err)
	}
	g, err := strconv.ParseUint(account.Gid, 10, 32)
	if err != nil {
		t.Fatalf("find a user for servers: %v", err)
	}
	return uint32(u), uint32(g), true
}

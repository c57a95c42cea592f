package peertest

import (
	"os"
	"os/user"
	"strconv"
	"syscall"
	"testing"

	"signalbox/scripts/process"
)

// attributes make the kernel end a server whose test process is gone, also when
// that was killed and could not clean up, and leave it no rights of root, as which
// some servers do not run.
func attributes(t testing.TB) *syscall.SysProcAttr {
	t.Helper()
	a := process.DieWithParent()
	if uid, gid, other := unprivileged(t); other {
		a.Credential = &syscall.Credential{Uid: uid, Gid: gid}
	}
	return a
}

// owner gives a function that makes the user of servers the owner of a file.
func owner(t testing.TB) func(path string) error {
	t.Helper()
	uid, gid, other := unprivileged(t)
	if !other {
		return func(string) error { return nil }
	}
	return func(path string) error { return os.Chown(path, int(uid), int(gid)) }
}

// unprivileged gives the user that servers run as, if it is another one.
func unprivileged(t testing.TB) (uid, gid uint32, other bool) {
	t.Helper()
	if os.Getuid() != 0 {
		return 0, 0, false
	}
	nobody, err := user.Lookup("nobody")
	if err != nil {
		t.Fatalf("find a user for servers: %v", err)
	}
	u, err := strconv.ParseUint(nobody.Uid, 10, 32)
	if err != nil {
		t.Fatalf("find a user for servers: %v", err)
	}
	g, err := strconv.ParseUint(nobody.Gid, 10, 32)
	if err != nil {
		t.Fatalf("find a user for servers: %v", err)
	}
	return uint32(u), uint32(g), true
}

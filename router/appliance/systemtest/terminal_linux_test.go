package systemtest

import (
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"

	"signalbox/scripts/process"
	"signalbox/scripts/suite"
)

// TestPasswordsAreShownAtATerminal makes the first start at a terminal, where the
// generated passwords are shown.
func TestPasswordsAreShownAtATerminal(t *testing.T) {
	t.Parallel()
	ours, theirs := openTerminal(t)
	dir := dataDir(t)
	cmd := prepare(settings(nil).environ(dir), "serve")
	cmd.Stdout = theirs
	started, err := process.Serve(cmd)
	if err != nil {
		t.Fatal(err)
	}
	theirs.Close()
	t.Cleanup(started.Kill)
	p := &service{started, dir}
	copied := make(chan struct{})
	go func() {
		defer close(copied)
		io.Copy(&p.Stdout, ours) //nolint:errcheck // ends with the process
	}()
	shown := func() map[string][2]string { return credentials(strings.ReplaceAll(p.Stdout.String(), "\r\n", "\n")) }
	suite.WaitFor(t, "the passwords are shown", func() bool { return p.Ended() || len(shown()) == 2 })
	p.stop(t)
	<-copied
	if diff := cmp.Diff(credentials(read(t, filepath.Join(p.dir, "initial-credentials"))), shown()); diff != "" {
		t.Errorf("shown, and kept in the file (-file +shown):\n%s", diff)
	}
}

// openTerminal opens both ends of a terminal.
func openTerminal(t *testing.T) (ours, theirs *os.File) {
	t.Helper()
	ours, err := os.OpenFile("/dev/ptmx", os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { ours.Close() })
	raw, err := ours.SyscallConn()
	if err != nil {
		t.Fatal(err)
	}
	var number int
	var failed error
	if err := raw.Control(func(fd uintptr) {
		if failed = unix.IoctlSetPointerInt(int(fd), unix.TIOCSPTLCK, 0); failed == nil {
			number, failed = unix.IoctlGetInt(int(fd), unix.TIOCGPTN)
		}
	}); err != nil || failed != nil {
		t.Fatal(err, failed)
	}
	theirs, err = os.OpenFile(fmt.Sprint("/dev/pts/", number), os.O_RDWR|unix.O_NOCTTY, 0)
	if err != nil {
		t.Fatal(err)
	}
	return ours, theirs
}

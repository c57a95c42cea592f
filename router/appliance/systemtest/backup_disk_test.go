package systemtest

import (
	"errors"
	"io/fs"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"signalbox/scripts/process"
)

// TestBackupOnAFullDisk makes a backup on a disk that is too small for it, and restores one
// where there is only space for the data: nothing half is left, and the data is as before.
func TestBackupOnAFullDisk(t *testing.T) {
	t.Parallel()
	dir, env, file := dataDir(t), configured(nil), filepath.Join(t.TempDir(), "backup")
	serve(t, dir, env).stop(t)
	if got := command(t, env.environ(dir), "backup", "create", file); got.code != 0 {
		t.Fatalf("create: %+v", got)
	}
	disk := t.TempDir()
	out := onSmallDisk(t, 128<<10, `"$0" backup create "$1/b" 2>&1; echo "exit $?"; ls -A "$1"`, env.environ(dir), disk)
	if !strings.HasSuffix(out, "exit 1\n") || !isAboutSpace(out) {
		t.Errorf("create: %s", out)
	}
	const restore = `cp -a "$2" "$1/data" && SIGNALBOX_DATA_DIR="$1/data" "$0" restore "$3" 2>&1; echo "exit $?"; ls -A "$1"; diff -r "$2" "$1/data" && echo same`
	out = onSmallDisk(t, sizeOf(t, dir)+64<<10, restore, env.environ(dir), disk, dir, file)
	if !strings.HasSuffix(out, "exit 1\ndata\nsame\n") || !isAboutSpace(out) {
		t.Errorf("restore: %s", out)
	}
}

func isAboutSpace(text string) bool {
	return strings.Contains(text, "space") || strings.Contains(text, "full")
}

// sizeOf returns the size of the files of a directory in whole pages, and a page for each.
func sizeOf(t *testing.T, dir string) (n int64) {
	t.Helper()
	err := filepath.WalkDir(dir, func(_ string, e fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		info, err := e.Info()
		if err == nil {
			n += (info.Size()+4095)/4096*4096 + 4096
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return n
}

// onSmallDisk runs a script after a file system of a size was mounted at $1, which only the
// script sees. $0 is the program.
func onSmallDisk(t *testing.T, size int64, script string, env []string, disk string, args ...string) string {
	t.Helper()
	mount := "mount -t tmpfs -o size=" + strconv.FormatInt(size, 10) + `,mode=0700 none "$1" && { ` + script + "; }"
	cmd := exec.CommandContext(t.Context(), "/bin/sh", append([]string{"-c", mount, process.Program, disk}, args...)...)
	cmd.Env, cmd.SysProcAttr = append(env, "PATH=/usr/bin:/bin:/usr/sbin:/sbin"), ownMounts()
	out, err := cmd.Output()
	if errors.Is(err, syscall.EPERM) {
		t.Skip("this user may not mount, so there is no full disk")
	}
	return string(out)
}

//go:build unix

package upgrade

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
)

// CanReplace reports whether a program can be replaced while it runs.
const CanReplace = true

// likeParent makes what root has created belong to the owner of the folder that it is in.
func likeParent(path string) error { return OwnLike(path, filepath.Dir(path)) }

// OwnLike makes a file, or a folder with all that is in it, belong to the owner of another
// one, if this process is root's.
func OwnLike(path, other string) error {
	info, err := os.Stat(other)
	if err != nil {
		return err
	}
	owner, ok := info.Sys().(*syscall.Stat_t)
	if !ok || os.Geteuid() != 0 {
		return nil
	}
	return filepath.WalkDir(path, func(path string, _ fs.DirEntry, err error) error {
		return errors.Join(err, os.Lchown(path, int(owner.Uid), int(owner.Gid)))
	})
}

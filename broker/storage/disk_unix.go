//go:build linux || darwin || freebsd

package storage

import "golang.org/x/sys/unix"

// DiskFree returns how many bytes a user without privileges may write to the disk of a
// directory, -1 if that cannot be determined.
func DiskFree(dir string) int64 {
	var s unix.Statfs_t
	if err := unix.Statfs(dir, &s); err != nil {
		return -1
	}
	return int64(s.Bavail) * int64(s.Bsize)
}

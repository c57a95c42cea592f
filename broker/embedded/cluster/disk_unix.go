//go:build linux || darwin || freebsd

package cluster

import "golang.org/x/sys/unix"

// diskFree returns how many bytes a user without privileges may write to the disk of a
// directory, -1 if that cannot be determined.
func diskFree(dir string) int64 {
	var s unix.Statfs_t
	if err := unix.Statfs(dir, &s); err != nil {
		return -1
	}
	return int64(s.Bavail) * int64(s.Bsize)
}

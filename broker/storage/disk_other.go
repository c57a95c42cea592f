//go:build !linux && !darwin && !freebsd && !windows

package storage

// DiskFree returns -1: the free space is not known on this system.
func DiskFree(string) int64 { return -1 }

//go:build !linux && !darwin && !freebsd && !windows

package cluster

// diskFree returns -1: the free space is not known on this system.
func diskFree(string) int64 { return -1 }

package storage

import "golang.org/x/sys/windows"

// DiskFree returns how many bytes the user may write to the disk of a directory, -1 if that
// cannot be determined.
func DiskFree(dir string) int64 {
	path, err := windows.UTF16PtrFromString(dir)
	if err != nil {
		return -1
	}
	var free uint64
	if err := windows.GetDiskFreeSpaceEx(path, &free, nil, nil); err != nil {
		return -1
	}
	return int64(free)
}

//go:build unix

package doctor

import (
	"io/fs"
	"syscall"
)

// ownerOf returns the number of the user that a file belongs to.
func ownerOf(info fs.FileInfo) (user uint32, known bool) {
	s, ok := info.Sys().(*syscall.Stat_t)
	if !ok {
		return 0, false
	}
	return s.Uid, true
}

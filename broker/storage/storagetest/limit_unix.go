//go:build unix

package storagetest

import (
	"os/signal"
	"syscall"
)

// limitsFiles reports whether limitFiles is possible.
const limitsFiles = true

// limitFiles bounds the size of the files of this process, in bytes.
func limitFiles(bytes uint64) error {
	signal.Ignore(syscall.SIGXFSZ)
	return syscall.Setrlimit(syscall.RLIMIT_FSIZE, &syscall.Rlimit{Cur: bytes, Max: 1 << 40})
}

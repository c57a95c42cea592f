package storage

import (
	"errors"
	"os"
	"runtime"
)

// SyncDir makes the names in a directory durable. Windows has no way to do so.
func SyncDir(path string) error {
	if runtime.GOOS == "windows" {
		return nil
	}
	dir, err := os.Open(path)
	if err != nil {
		return err
	}
	return errors.Join(dir.Sync(), dir.Close())
}

//go:build !windows

package datadir

import (
	"errors"
	"os"
)

// syncDir brings the names in a folder to the disk.
func syncDir(path string) error {
	dir, err := os.Open(path)
	if err != nil {
		return err
	}
	return errors.Join(dir.Sync(), dir.Close())
}

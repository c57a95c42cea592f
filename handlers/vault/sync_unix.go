//go:build !windows

package vault

import (
	"errors"
	"fmt"
	"os"
)

// syncDir brings the names in a folder to the disk.
func syncDir(path string) error {
	dir, err := os.Open(path)
	if err != nil {
		return fmt.Errorf("sync data directory: %w", err)
	}
	return errors.Join(dir.Sync(), dir.Close())
}

// othersMay reports whether the mode of a file lets other users at it.
func othersMay(mode os.FileMode) bool { return mode.Perm()&0o077 != 0 }

//go:build !windows

package vault

import (
	"errors"
	"fmt"
	"os"
)

// syncDir makes the names in a directory durable.
func syncDir(path string) error {
	dir, err := os.Open(path)
	if err != nil {
		return fmt.Errorf("sync data directory: %w", err)
	}
	return errors.Join(dir.Sync(), dir.Close())
}

// othersMay reports whether a mode allows access to other users.
func othersMay(mode os.FileMode) bool { return mode.Perm()&0o077 != 0 }

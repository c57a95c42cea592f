//go:build !windows

package vault

import "os"

// othersMay reports whether a mode allows access to other users.
func othersMay(mode os.FileMode) bool { return mode.Perm()&0o077 != 0 }

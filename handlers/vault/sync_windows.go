package vault

import "os"

// syncDir does nothing: Windows has no way to bring a folder's names to the disk.
func syncDir(string) error { return nil }

// othersMay reports nothing: who may read a file does not stand in its mode on
// Windows, but in the access control list of its folder.
func othersMay(os.FileMode) bool { return false }

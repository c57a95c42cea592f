package vault

import "os"

// syncDir does nothing: Windows has no way to make a directory's names durable.
func syncDir(string) error { return nil }

// othersMay returns false: on Windows access is not part of the mode, but of the access
// control list of the directory.
func othersMay(os.FileMode) bool { return false }

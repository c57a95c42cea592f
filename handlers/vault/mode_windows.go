package vault

import "os"

// othersMay returns false: on Windows access is not part of the mode, but of the access
// control list of the directory.
func othersMay(os.FileMode) bool { return false }

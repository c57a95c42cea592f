package appliance

import (
	"errors"
	"os"
)

// WritePrivate writes a file that only its owner may read, also if it exists with a
// less strict mode: it contains password hashes.
func WritePrivate(path string, b []byte) error {
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o600)
	if err != nil {
		return err
	}
	if info, statErr := f.Stat(); statErr == nil && info.Mode().IsRegular() {
		err = f.Chmod(0o600)
	}
	if err == nil {
		_, err = f.Write(b)
	}
	return errors.Join(err, f.Close())
}

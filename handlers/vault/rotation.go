package vault

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
)

// Rotation is the change from one key to another. It may end at any moment: both key
// files exist until Commit, and while they do, Open returns a vault that unseals with
// either. A rotation that begins again goes on with the key that the last one made.
type Rotation struct {
	path     string
	old, new *Vault
}

// nextPath is where the new key is until everything is sealed with it.
func nextPath(path string) string { return path + ".next" }

// Rotate begins a rotation, or goes on with one that was interrupted. No other
// process may seal meanwhile.
func Rotate(path string) (*Rotation, error) {
	key, err := readKey(path)
	if errors.Is(err, os.ErrNotExist) {
		return nil, fmt.Errorf("key file %s does not exist, so there is nothing to rotate", path)
	}
	if err != nil {
		return nil, err
	}
	next, err := readKey(nextPath(path))
	if errors.Is(err, os.ErrNotExist) {
		next, err = createKey(nextPath(path))
	}
	if err != nil {
		return nil, err
	}
	r := &Rotation{path: path}
	if r.old, err = newVault(key); err != nil {
		return nil, err
	}
	r.new, err = newVault(next)
	return r, err
}

// Reseal returns what was sealed with the old key, sealed with the new one. What is
// sealed with that already it returns as it is. ErrSealed: neither key opens it.
func (r *Rotation) Reseal(sealed, aad []byte) ([]byte, error) {
	if _, err := r.new.Unseal(sealed, aad); err == nil {
		return sealed, nil
	}
	plain, err := r.old.Unseal(sealed, aad)
	if err != nil {
		return nil, err
	}
	return r.new.Seal(plain, aad), nil
}

// Commit puts the new key in the place of the old one, which is deleted.
// Everything must be sealed with the new one by then, on disk.
func (r *Rotation) Commit() error {
	if err := os.Rename(nextPath(r.path), r.path); err != nil {
		return fmt.Errorf("put the new key file in place: %w", err)
	}
	return syncDir(filepath.Dir(r.path))
}

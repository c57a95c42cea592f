package vault

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"signalbox/broker/storage"
)

// Rotation is the change from one key to another. It may be interrupted at any time:
// both key files exist until Commit, and while they do, Open returns a vault that
// unseals with either. A new rotation continues with the key of an interrupted one.
type Rotation struct {
	path     string
	old, new *Vault
}

// nextPath is the path of the new key until everything is sealed with it.
func nextPath(path string) string { return path + ".next" }

// Rotate starts a rotation, or continues an interrupted one. No other process may seal
// in the meantime.
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

// Reseal decrypts with the old key and encrypts with the new one. It returns its
// argument if that is sealed with the new key already. errSealed: neither key opens it.
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

// Commit replaces the old key by the new one. Everything must be sealed with the new
// key by then, and be durable.
func (r *Rotation) Commit() error {
	if err := os.Rename(nextPath(r.path), r.path); err != nil {
		return fmt.Errorf("put the new key file in place: %w", err)
	}
	return storage.SyncDir(filepath.Dir(r.path))
}

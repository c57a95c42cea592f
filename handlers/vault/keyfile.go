package vault

import (
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"signalbox/broker/storage"
)

// keySize is the length of an AES-256 key in bytes.
const keySize = 32

// readKey reads a key file, which only its owner may access.
func readKey(path string) ([]byte, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, fmt.Errorf("open key file: %w", err)
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return nil, fmt.Errorf("inspect key file: %w", err)
	}
	if !info.Mode().IsRegular() {
		return nil, fmt.Errorf("key file %s is not a regular file", path)
	}
	if mode := info.Mode().Perm(); othersMay(mode) {
		return nil, fmt.Errorf("key file %s has mode %#o, so others can read it: run chmod 600 on it, "+
			"and change the broker passwords if others had access", path, mode)
	}
	key, err := io.ReadAll(io.LimitReader(f, keySize+1))
	if err != nil {
		return nil, fmt.Errorf("read key file: %w", err)
	}
	if len(key) != keySize {
		return nil, fmt.Errorf("key file %s is damaged: it must hold exactly %d bytes; put it back from a backup",
			path, keySize)
	}
	return key, nil
}

// createKey writes a random key to a file that must not exist. The file gets its name
// only when it is complete and durable.
func createKey(path string) (_ []byte, err error) {
	key := make([]byte, keySize)
	rand.Read(key)
	f, err := os.CreateTemp(filepath.Dir(path), ".key-*") // mode 0600
	if err != nil {
		return nil, fmt.Errorf("create key file: %w", err)
	}
	defer os.Remove(f.Name()) //nolint:errcheck // the other name stays
	_, err = f.Write(key)
	if err = errors.Join(err, f.Sync(), f.Close()); err != nil {
		return nil, fmt.Errorf("write key file: %w", err)
	}
	if err := os.Link(f.Name(), path); err != nil { // unlike a rename, a link never replaces
		return nil, fmt.Errorf("create key file: %w", err)
	}
	return key, storage.SyncDir(filepath.Dir(path))
}

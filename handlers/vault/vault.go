// Package vault seals stored secrets, with the key secret.key of the data directory, which
// is never in a database: the passwords and keys of broker connections (column secrets of
// signalbox.db, handlers/connections.go), the configurations of bridges, and the key of a
// cluster node.
//
// Of signalbox it imports broker/storage only, to make the names of files durable.
package vault

import (
	"crypto/aes"
	"crypto/cipher"
	"crypto/rand"
	"errors"
	"fmt"
	"log/slog"
	"os"
)

// errSealed means that a secret could not be opened: it was sealed with another
// key or for another record, or it was changed.
var errSealed = errors.New("secret cannot be unsealed with this key file")

// version is the first byte of every sealed secret, so that a later format can be
// distinguished.
const version = 1

// Vault seals and unseals. It is safe for concurrent use and prints without its key.
type Vault struct {
	aead cipher.AEAD
	next cipher.AEAD // of an interrupted rotation, which unseals too; nil for none
}

// Open reads the key file at path, and creates one with mode 0600 if it is missing and
// mayCreate is true. Pass false if sealed data exists: a new key could never open it. A
// file that other users may read is refused.
func Open(path string, mayCreate bool) (*Vault, error) {
	key, err := readKey(path)
	if errors.Is(err, os.ErrNotExist) {
		if !mayCreate {
			return nil, fmt.Errorf("key file %s is missing but the database holds secrets sealed with it: "+
				"put the file back from a backup", path)
		}
		key, err = createKey(path)
	}
	if err != nil {
		return nil, err
	}
	v, err := newVault(key)
	if err != nil {
		return nil, err
	}
	next, err := readKey(nextPath(path))
	switch {
	case errors.Is(err, os.ErrNotExist):
		return v, nil
	case err != nil:
		return nil, err
	}
	v.next, err = newAEAD(next)
	return v, err
}

func newVault(key []byte) (*Vault, error) {
	aead, err := newAEAD(key)
	return &Vault{aead: aead}, err
}

func newAEAD(key []byte) (cipher.AEAD, error) {
	block, err := aes.NewCipher(key)
	if err != nil {
		return nil, fmt.Errorf("use key: %w", err)
	}
	aead, err := cipher.NewGCM(block)
	if err != nil {
		return nil, fmt.Errorf("use key: %w", err)
	}
	return aead, nil
}

// Seal encrypts plain with AES-256-GCM under a random nonce. aad, the id of the
// record, is not stored: the result opens only for the record it was made for.
func (v *Vault) Seal(plain, aad []byte) []byte {
	out := make([]byte, 1+v.aead.NonceSize(), 1+v.aead.NonceSize()+len(plain)+v.aead.Overhead())
	out[0] = version
	nonce := out[1:]
	rand.Read(nonce)
	return v.aead.Seal(out, nonce, plain, aad)
}

// Unseal returns what was sealed for aad. Every failure is errSealed.
func (v *Vault) Unseal(sealed, aad []byte) ([]byte, error) {
	n := 1 + v.aead.NonceSize()
	if len(sealed) < n || sealed[0] != version {
		return nil, errSealed
	}
	plain, err := v.aead.Open(nil, sealed[1:n], sealed[n:], aad)
	if err != nil && v.next != nil {
		plain, err = v.next.Open(nil, sealed[1:n], sealed[n:], aad)
	}
	if err != nil {
		return nil, errSealed
	}
	return plain, nil
}

// Format prints the vault without its key, whatever the verb.
func (*Vault) Format(f fmt.State, _ rune) { fmt.Fprint(f, "vault") }

// LogValue logs the vault without its key.
func (*Vault) LogValue() slog.Value { return slog.StringValue("vault") }

package vault

import (
	"crypto/rand"
	"fmt"
	"log/slog"
	"sync/atomic"
)

// Sealer seals and unseals secrets. aad is the id of the record that a secret belongs to.
type Sealer interface {
	Seal(plain, aad []byte) []byte
	Unseal(sealed, aad []byte) ([]byte, error)
}

// Keyring seals the secrets of a database: with the vault of this machine or, once Use was
// called, with a key of the database, which all machines have that share the database. It is
// safe for concurrent use and prints without its keys.
type Keyring struct {
	machine *Vault
	id      []byte                // for which the key of the database is sealed
	own     atomic.Pointer[Vault] // with the key of the database; nil for none
}

var _ Sealer = (*Keyring)(nil)

// NewKeyring returns the keyring of a database without a key. id is what its key is sealed for.
func NewKeyring(machine *Vault, id string) *Keyring {
	return &Keyring{machine: machine, id: []byte(id)}
}

// NewKey returns a random key for the database, sealed by this machine.
func (k *Keyring) NewKey() (stored []byte) {
	key := make([]byte, keySize)
	rand.Read(key)
	return k.machine.Seal(key, k.id)
}

// Use has secrets sealed with a key of the database from now on, which is given as this machine has
// sealed it; nil stands for none. What was sealed by the machine itself is still unsealed.
func (k *Keyring) Use(stored []byte) error {
	own, err := k.open(stored)
	if err == nil {
		k.own.Store(own)
	}
	return err
}

func (k *Keyring) open(stored []byte) (own *Vault, err error) {
	if stored == nil {
		return nil, nil
	}
	key, err := k.machine.Unseal(stored, k.id)
	if err == nil {
		own, err = newVault(key)
	}
	if err != nil {
		return nil, fmt.Errorf("the key of the database: %w", err)
	}
	return own, nil
}

// Reseal seals what this machine has sealed with a key of the database, which is not in use yet.
func (k *Keyring) Reseal(stored, sealed, aad []byte) ([]byte, error) {
	own, err := k.open(stored)
	if err != nil {
		return nil, err
	}
	plain, err := k.machine.Unseal(sealed, aad)
	if err != nil {
		return nil, err
	}
	return own.Seal(plain, aad), nil
}

// Export returns a key of the database, which this machine has sealed, for other machines.
func (k *Keyring) Export(stored []byte) (carried []byte, err error) {
	return k.machine.Unseal(stored, k.id)
}

// Import returns a key of the database from another machine, sealed by this one.
func (k *Keyring) Import(carried []byte) (stored []byte, err error) {
	if _, err := newVault(carried); err != nil {
		return nil, fmt.Errorf("the key of the database: %w", err)
	}
	return k.machine.Seal(carried, k.id), nil
}

// Seal encrypts a secret of the database, as [Vault.Seal] does.
func (k *Keyring) Seal(plain, aad []byte) []byte {
	if own := k.own.Load(); own != nil {
		return own.Seal(plain, aad)
	}
	return k.machine.Seal(plain, aad)
}

// Unseal returns what was sealed for aad, as [Vault.Unseal] does.
func (k *Keyring) Unseal(sealed, aad []byte) ([]byte, error) {
	if own := k.own.Load(); own != nil {
		if plain, err := own.Unseal(sealed, aad); err == nil {
			return plain, nil
		}
	}
	return k.machine.Unseal(sealed, aad)
}

// Format prints the keyring without its keys, whatever the verb.
func (*Keyring) Format(f fmt.State, _ rune) { fmt.Fprint(f, "keyring") }

// LogValue logs the keyring without its keys.
func (*Keyring) LogValue() slog.Value { return slog.StringValue("keyring") }

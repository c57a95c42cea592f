package vault

import (
	"bytes"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"log/slog"
	"sync/atomic"
)

// Sealer seals and unseals secrets. aad is the id of the record that a secret belongs to.
type Sealer interface {
	Seal(plain, aad []byte) []byte
	Unseal(sealed, aad []byte) ([]byte, error)
}

// ErrNoKey means that a secret is sealed with a key of the database which this machine does not have.
var ErrNoKey = errors.New("this machine does not have the key of the database with which the secret is sealed")

// keyedVersion is the first byte of a secret that is sealed with a key of a database. The ID of the
// key follows, and then what Vault.Seal returns, without its version.
const keyedVersion = 2

// keyIDSize is the length of the ID of a key in bytes.
const keyIDSize = 16

// Keyring seals the secrets of a database: with the vault of this machine or, once Use was
// called, with a key of the database, which all machines have that share the database. It is
// safe for concurrent use and prints without its keys.
//
// Each key of a database has an ID in hex, the beginning of its hash. A secret names the key with
// which it is sealed, so that several keys can be in use while one replaces another.
type Keyring struct {
	machine *Vault
	aad     string // what is before the ID in what a key is sealed for
	keys    atomic.Pointer[databaseKeys]
}

// databaseKeys are keys of a database. They are replaced, never changed.
type databaseKeys struct {
	current string // ID of the key that seals; "" for that of the machine
	byID    map[string]databaseKey
}

// databaseKey is a key of a database.
type databaseKey struct {
	plain []byte
	vault *Vault
}

var _ Sealer = (*Keyring)(nil)

// NewKeyring returns the keyring of a database without a key. Keys of the database are stored sealed
// for aad and their ID.
func NewKeyring(machine *Vault, aad string) *Keyring {
	k := &Keyring{machine: machine, aad: aad}
	k.keys.Store(&databaseKeys{})
	return k
}

// keyID returns the ID of a key.
func keyID(key []byte) string {
	sum := sha256.Sum256(append([]byte("key of a signalbox database: "), key...))
	return hex.EncodeToString(sum[:keyIDSize])
}

// NewKey returns a random key for the database: its ID, and the key sealed by this machine.
func (k *Keyring) NewKey() (id string, stored []byte) {
	key := make([]byte, keySize)
	rand.Read(key)
	id = keyID(key)
	return id, k.machine.Seal(key, k.aadOf(id))
}

func (k *Keyring) aadOf(id string) []byte { return []byte(k.aad + id) }

// Use sets the keys of the database, which are given by ID as this machine has sealed them. From now
// on the one with the ID current seals secrets; with "" or while that key is missing, this machine's
// own key does.
func (k *Keyring) Use(current string, stored map[string][]byte) error {
	next := &databaseKeys{current: current, byID: map[string]databaseKey{}}
	for id, sealed := range stored {
		key, err := k.open(id, sealed)
		if err != nil {
			return err
		}
		next.byID[id] = key
	}
	k.keys.Store(next)
	return nil
}

func (k *Keyring) open(id string, stored []byte) (databaseKey, error) {
	plain, err := k.machine.Unseal(stored, k.aadOf(id))
	if err == nil && keyID(plain) != id {
		err = errSealed
	}
	var v *Vault
	if err == nil {
		v, err = newVault(plain)
	}
	if err != nil {
		return databaseKey{}, fmt.Errorf("the key of the database: %w", err)
	}
	return databaseKey{plain, v}, nil
}

// Has reports whether this machine has the key that seals: that with the ID current.
func (k *Keyring) Has(current string) bool {
	all := k.keys.Load()
	_, ok := all.byID[current]
	return all.current == current && (ok || current == "")
}

// Export returns a key of the database for another machine. It must not be stored or logged.
func (k *Keyring) Export(id string) (key []byte, err error) {
	if own, ok := k.keys.Load().byID[id]; ok {
		return bytes.Clone(own.plain), nil
	}
	return nil, ErrNoKey
}

// Import returns the key with an ID, which is from another machine, sealed by this one.
func (k *Keyring) Import(id string, key []byte) (stored []byte, err error) {
	if len(key) != keySize || keyID(key) != id {
		return nil, errors.New("the key of the database is not the one that was asked for")
	}
	return k.machine.Seal(key, k.aadOf(id)), nil
}

// Seal encrypts a secret of the database, as [Vault.Seal] does.
func (k *Keyring) Seal(plain, aad []byte) []byte {
	all := k.keys.Load()
	if key, ok := all.byID[all.current]; ok {
		return key.seal(all.current, plain, aad)
	}
	return k.machine.Seal(plain, aad)
}

func (key databaseKey) seal(id string, plain, aad []byte) []byte {
	raw, _ := hex.DecodeString(id) // made by keyID
	return append(append([]byte{keyedVersion}, raw...), key.vault.Seal(plain, aad)[1:]...)
}

// Unseal returns what was sealed for aad, as [Vault.Unseal] does. ErrNoKey: the key is missing.
func (k *Keyring) Unseal(sealed, aad []byte) ([]byte, error) {
	id := KeyOf(sealed)
	if id == "" {
		return k.machine.Unseal(sealed, aad)
	}
	key, ok := k.keys.Load().byID[id]
	if !ok {
		return nil, ErrNoKey
	}
	return key.vault.Unseal(append([]byte{version}, sealed[1+keyIDSize:]...), aad)
}

// KeyOf returns the ID of the key of a database with which a secret is sealed, "" for none.
func KeyOf(sealed []byte) string {
	if len(sealed) < 1+keyIDSize || sealed[0] != keyedVersion {
		return ""
	}
	return hex.EncodeToString(sealed[1 : 1+keyIDSize])
}

// Reseal returns a secret sealed with the key that has the ID to, whatever it was sealed with.
// ErrNoKey: one of both is missing.
func (k *Keyring) Reseal(to string, sealed, aad []byte) ([]byte, error) {
	if KeyOf(sealed) == to {
		return sealed, nil
	}
	plain, err := k.Unseal(sealed, aad)
	if err != nil {
		return nil, err
	}
	key, ok := k.keys.Load().byID[to]
	if !ok {
		return nil, ErrNoKey
	}
	return key.seal(to, plain, aad), nil
}

// Format prints the keyring without its keys, whatever the verb.
func (*Keyring) Format(f fmt.State, _ rune) { fmt.Fprint(f, "keyring") }

// LogValue logs the keyring without its keys.
func (*Keyring) LogValue() slog.Value { return slog.StringValue("keyring") }

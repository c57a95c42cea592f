package vault

import (
	"bytes"
	"errors"
	"fmt"
	"strings"
	"testing"
)

// machines returns the keyrings of two machines that share a database.
func machines(t *testing.T) (one, two *Keyring) {
	t.Helper()
	_, a := newKeyFile(t)
	_, b := newKeyFile(t)
	return NewKeyring(a, "key:"), NewKeyring(b, "key:")
}

// newKey has a keyring use a new key beside those that it was given before.
func newKey(t *testing.T, k *Keyring, stored map[string][]byte) (id string) {
	t.Helper()
	id, sealed := k.NewKey()
	stored[id] = sealed
	if err := k.Use(id, stored); err != nil {
		t.Fatal(err)
	}
	return id
}

func wantSecret(t *testing.T, k *Keyring, sealed []byte, want error) {
	t.Helper()
	plain, err := k.Unseal(sealed, []byte("row"))
	if !errors.Is(err, want) || want == nil && (err != nil || string(plain) != "secret") {
		t.Errorf("got %q, %v, want %v", plain, err, want)
	}
}

// TestKeyringShares seals at one machine and unseals at another one, once that has the key.
func TestKeyringShares(t *testing.T) {
	t.Parallel()
	one, two := machines(t)
	own := one.Seal([]byte("secret"), []byte("row"))
	stored := map[string][]byte{}
	id := newKey(t, one, stored)
	sealed := one.Seal([]byte("secret"), []byte("row"))
	wantSecret(t, one, own, nil)
	wantSecret(t, one, sealed, nil)
	wantSecret(t, two, sealed, ErrNoKey)
	if err := two.Use(id, nil); err != nil || two.Has(id) || !one.Has(id) {
		t.Errorf("got %v; the key is present: %t, %t", err, one.Has(id), two.Has(id))
	}

	key, err := one.Export(id)
	if err != nil {
		t.Fatal(err)
	}
	if bytes.Contains(stored[id], key) || strings.Contains(id, string(key)) {
		t.Error("the stored key can be read")
	}
	if _, err := two.Export(id); !errors.Is(err, ErrNoKey) {
		t.Errorf("got %v", err)
	}
	other := bytes.Clone(key)
	other[0] ^= 1
	for _, wrong := range [][]byte{nil, other, key[1:]} {
		if _, err := two.Import(id, wrong); err == nil {
			t.Errorf("a key of %d bytes was accepted in place of another one", len(wrong))
		}
	}
	imported, err := two.Import(id, key)
	if err != nil {
		t.Fatal(err)
	}
	if err := two.Use(id, map[string][]byte{"another": imported}); err == nil {
		t.Error("a key was accepted under another ID")
	}
	if err := two.Use(id, map[string][]byte{id: imported}); err != nil || !two.Has(id) {
		t.Fatal(err)
	}
	wantSecret(t, two, sealed, nil)
	wantSecret(t, two, own, errSealed)
}

// TestKeyringReseals replaces the key of a database by another one.
func TestKeyringReseals(t *testing.T) {
	t.Parallel()
	k, _ := machines(t)
	stored := map[string][]byte{}
	secrets := [][]byte{k.Seal([]byte("secret"), []byte("row"))}
	first := newKey(t, k, stored)
	secrets = append(secrets, k.Seal([]byte("secret"), []byte("row")))
	second := newKey(t, k, stored)
	secrets = append(secrets, k.Seal([]byte("secret"), []byte("row")))
	for i, s := range secrets {
		wantSecret(t, k, s, nil)
		resealed, err := k.Reseal(second, s, []byte("row"))
		if err != nil || KeyOf(resealed) != second {
			t.Fatalf("got %v, sealed with %q", err, KeyOf(resealed))
		}
		secrets[i] = resealed
	}
	delete(stored, first)
	if err := k.Use(second, stored); err != nil {
		t.Fatal(err)
	}
	for _, s := range secrets {
		wantSecret(t, k, s, nil)
	}
	if _, err := k.Reseal(first, secrets[0], []byte("row")); !errors.Is(err, ErrNoKey) {
		t.Errorf("got %v", err)
	}
	if _, err := k.Reseal(second, secrets[0][:1+keyIDSize], []byte("row")); err != nil {
		t.Errorf("got %v for what is sealed with that key already", err)
	}
	wantSecret(t, k, secrets[0][:1+keyIDSize], errSealed)
}

func TestKeyringPrintsWithoutItsKeys(t *testing.T) {
	t.Parallel()
	k, _ := machines(t)
	newKey(t, k, map[string][]byte{})
	if got := fmt.Sprintf("%v %+v %#v %x", k, k, k, k); got != "keyring keyring keyring keyring" {
		t.Errorf("got %q", got)
	}
}

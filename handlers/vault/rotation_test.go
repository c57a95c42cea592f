package vault

import (
	"bytes"
	"errors"
	"os"
	"testing"
)

// TestRotationMayEndAnywhere interrupts a rotation after each of its steps. What is
// sealed can still be opened, and the next rotation completes.
func TestRotationMayEndAnywhere(t *testing.T) {
	t.Parallel()
	for name, resealed := range map[string]int{"with the new key made": 0, "half-way": 1, "before the commit": 2} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			path, v := newKeyFile(t)
			stored := [][]byte{v.Seal([]byte("one"), []byte("1")), v.Seal([]byte("two"), []byte("2"))}
			before := content(t, path)
			rotate(t, path, stored[:resealed])
			wantOpen(t, path, stored)
			if !bytes.Equal(content(t, path), before) {
				t.Error("the old key was replaced before everything was sealed anew")
			}
			r := rotate(t, path, stored)
			if err := r.Commit(); err != nil {
				t.Fatal(err)
			}
			wantOpen(t, path, stored)
			if _, err := v.Unseal(stored[0], []byte("1")); !errors.Is(err, errSealed) {
				t.Errorf("the old key opens what was sealed anew: %v", err)
			}
			if _, err := os.Stat(nextPath(path)); !errors.Is(err, os.ErrNotExist) || bytes.Equal(content(t, path), before) {
				t.Errorf("the new key is not in place: %v", err)
			}
		})
	}
}

// rotate reseals secrets, whose records are numbered from 1.
func rotate(t *testing.T, path string, stored [][]byte) *Rotation {
	t.Helper()
	r, err := Rotate(path)
	if err != nil {
		t.Fatal(err)
	}
	for i := range stored {
		if stored[i], err = r.Reseal(stored[i], []byte{byte('1' + i)}); err != nil {
			t.Fatal(err)
		}
	}
	return r
}

// wantOpen opens the secrets as a service that starts now would.
func wantOpen(t *testing.T, path string, stored [][]byte) {
	t.Helper()
	v, err := Open(path, false)
	if err != nil {
		t.Fatal(err)
	}
	for i, want := range []string{"one", "two"} {
		if got, err := v.Unseal(stored[i], []byte{byte('1' + i)}); err != nil || string(got) != want {
			t.Errorf("got %q, %v, want %q", got, err, want)
		}
	}
}

func TestRotationRefusesForeignSecrets(t *testing.T) {
	t.Parallel()
	path, _ := newKeyFile(t)
	_, other := newKeyFile(t)
	r, err := Rotate(path)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := r.Reseal(other.Seal([]byte("secret"), nil), nil); !errors.Is(err, errSealed) {
		t.Errorf("got %v, want %v", err, errSealed)
	}
	if _, err := Rotate(path + ".none"); err == nil {
		t.Error("a key that does not exist was rotated")
	}
}

func content(t *testing.T, path string) []byte {
	t.Helper()
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

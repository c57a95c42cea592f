package vault

import (
	"bytes"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func newKeyFile(t testing.TB) (path string, v *Vault) {
	t.Helper()
	path = filepath.Join(t.TempDir(), "secrets.key")
	v, err := Open(path, true)
	if err != nil {
		t.Fatal(err)
	}
	return path, v
}

func TestSealedOpensAgain(t *testing.T) {
	t.Parallel()
	path, v := newKeyFile(t)
	later, err := Open(path, false)
	if err != nil {
		t.Fatal(err)
	}
	for _, plain := range [][]byte{nil, []byte("p"), []byte(strings.Repeat("long ", 1000))} {
		got, err := later.Unseal(v.Seal(plain, []byte("id")), []byte("id"))
		if err != nil || !bytes.Equal(got, plain) {
			t.Errorf("got %q, %v, want %q", got, err, plain)
		}
	}
}

func TestSealHidesAndNeverRepeats(t *testing.T) {
	t.Parallel()
	_, v := newKeyFile(t)
	plain := []byte("correct horse battery staple")
	one, two := v.Seal(plain, nil), v.Seal(plain, nil)
	if bytes.Equal(one, two) {
		t.Error("the same secret was sealed to the same bytes")
	}
	if bytes.Contains(one, plain[:8]) {
		t.Error("the secret can be read in what was sealed")
	}
}

func TestUnsealRefuses(t *testing.T) {
	t.Parallel()
	_, v := newKeyFile(t)
	_, other := newKeyFile(t)
	sealed := v.Seal([]byte("secret"), []byte("id"))
	tests := map[string]func() ([]byte, error){
		"another record": func() ([]byte, error) { return v.Unseal(sealed, []byte("id2")) },
		"no record":      func() ([]byte, error) { return v.Unseal(sealed, nil) },
		"another key":    func() ([]byte, error) { return other.Unseal(sealed, []byte("id")) },
		"nothing":        func() ([]byte, error) { return v.Unseal(nil, []byte("id")) },
		"a nonce only":   func() ([]byte, error) { return v.Unseal(sealed[:13], []byte("id")) },
	}
	for i := range sealed {
		changed := bytes.Clone(sealed)
		changed[i] ^= 1
		tests[fmt.Sprintf("byte %d changed", i)] = func() ([]byte, error) { return v.Unseal(changed, []byte("id")) }
		tests[fmt.Sprintf("cut at %d", i)] = func() ([]byte, error) { return v.Unseal(sealed[:i], []byte("id")) }
	}
	for name, unseal := range tests {
		if got, err := unseal(); !errors.Is(err, errSealed) || got != nil {
			t.Errorf("%s: got %q, %v, want %v", name, got, err, errSealed)
		}
	}
}

func FuzzUnseal(f *testing.F) {
	_, v := newKeyFile(f)
	f.Add(v.Seal([]byte("secret"), []byte("id")), []byte("other id"))
	f.Add([]byte{}, []byte{})
	f.Add([]byte{version}, []byte("id"))
	f.Add(bytes.Repeat([]byte{version}, 13), []byte("id"))
	f.Fuzz(func(t *testing.T, sealed, aad []byte) {
		if plain, err := v.Unseal(sealed, aad); !errors.Is(err, errSealed) {
			t.Errorf("got %q, %v, want %v", plain, err, errSealed)
		}
	})
}

func TestKeyFileIsMadeOnce(t *testing.T) {
	t.Parallel()
	path, _ := newKeyFile(t)
	info, err := os.Stat(path)
	if err != nil || info.Mode() != 0o600 || info.Size() != keySize {
		t.Fatalf("got %v, %v, want a file of mode 600 and %d bytes", info, err, keySize)
	}
	before, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := Open(path, true); err != nil {
		t.Fatal(err)
	}
	after, err := os.ReadFile(path)
	if err != nil || !bytes.Equal(before, after) {
		t.Errorf("the key changed when the file was opened again (%v)", err)
	}
	if entries, err := os.ReadDir(filepath.Dir(path)); err != nil || len(entries) != 1 {
		t.Errorf("got files %v, %v, want the key file alone", entries, err)
	}
}

func TestMissingKeyIsNotReplaced(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "secrets.key")
	if _, err := Open(path, false); err == nil || !strings.Contains(err.Error(), "put the file back") {
		t.Errorf("got %v, want to be told to put the file back", err)
	}
	if _, err := os.Stat(path); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("got %v, want no file", err)
	}
}

// Two processes that start concurrently agree on one key, or one of them fails.
func TestCreateNeverReplaces(t *testing.T) {
	t.Parallel()
	path, _ := newKeyFile(t)
	if _, err := createKey(path); !errors.Is(err, os.ErrExist) {
		t.Errorf("got %v, want %v", err, os.ErrExist)
	}
}

func TestKeyFileIsRefused(t *testing.T) {
	t.Parallel()
	good := bytes.Repeat([]byte{7}, keySize)
	tests := []struct {
		name string
		key  []byte
		mode os.FileMode
		want string
	}{
		{"readable by the group", good, 0o640, "chmod 600"},
		{"readable by all", good, 0o604, "chmod 600"},
		{"writable by the group", good, 0o620, "chmod 600"},
		{"empty", nil, 0o600, "damaged"},
		{"short", good[1:], 0o600, "damaged"},
		{"long", append(good, 7), 0o600, "damaged"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			path := filepath.Join(t.TempDir(), "secrets.key")
			if err := os.WriteFile(path, tt.key, 0o600); err != nil {
				t.Fatal(err)
			}
			if err := os.Chmod(path, tt.mode); err != nil {
				t.Fatal(err)
			}
			_, err := Open(path, true)
			if err == nil || !strings.Contains(err.Error(), tt.want) || !strings.Contains(err.Error(), path) {
				t.Errorf("got %v, want an error that names the file and says %q", err, tt.want)
			}
		})
	}
	t.Run("a directory", func(t *testing.T) {
		t.Parallel()
		if _, err := Open(t.TempDir(), true); err == nil {
			t.Error("a directory was taken for a key file")
		}
	})
}

func TestVaultPrintsWithoutItsKey(t *testing.T) {
	t.Parallel()
	_, v := newKeyFile(t)
	var logged bytes.Buffer
	slog.New(slog.NewTextHandler(&logged, nil)).Info("m", "v", v)
	for _, got := range []string{fmt.Sprint(v), fmt.Sprintf("%+v", v), fmt.Sprintf("%#v", v), fmt.Sprintf("%x", v)} {
		if got != "vault" {
			t.Errorf("got %q, want %q", got, "vault")
		}
	}
	if !strings.HasSuffix(logged.String(), "v=vault\n") {
		t.Errorf("got %q, want the vault logged by name", logged.String())
	}
}

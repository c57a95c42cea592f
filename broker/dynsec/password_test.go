package dynsec

import (
	"encoding/base64"
	"errors"
	"fmt"
	"strings"
	"testing"

	"golang.org/x/crypto/argon2"
)

// Hashes that Mosquitto 2.1, 2.0 and its mosquitto_passwd made.
var madeByMosquitto = map[string]struct{ encoded, password string }{
	"2.1": {"$7$1000$oo77VPeAHnjHmjZ1DxLgWdnA9jAnaN2Ju0Tm2I4aJW1fppc44E3YHRLUAX4M7eolD7ixlNmIEu9sNdyaaddwWw==$" +
		"JV7rmva8vSiLCwa/pvZlGKlwHTXSb7PBkXKcvRN59rvK9CuD2zHY1xBzNI4tePDu8+GhKt9efuBs0WNh/Mjlqw==", "freepw"},
	"2.1, empty": {"$7$1000$+0MvsJvl8WyOsFOjHt+bLVs9JdJelkQ4JD0viNT28MTu8xBbelcSuLUulnCTJIPvciPsSZyawscbQLsceUXhSQ==$" +
		"UPx5eCVJjU0TzgUBLvfw0QbaDexYdN2cKryxeQc+lhO+LMqvspgc24UR1GmM2gebUOjVj6emjIDdRegT9pnK/Q==", ""},
	"2.0": {"$7$101$+19SKJg1nb0z9Pyc$" +
		"zB70BQ7vC3jpkZ4JcYoiXbrE8CxkEV5Pw4hhWnpJ26XJxLz5b6GC0xbBzv0snM8PXNMUGVcgSWEPffyWFZBSLg==", "freepw"},
	"sha512": {"$6$QBNzwa8L2ZdNDzg/$" +
		"4ZdGd9K+oTIcwnttyWqtjNcT3oawYXo/U/WMWjP7wpeh0oX8ZNVhfD6Dtd1MiUlDY1QV2jI5CkTtSAoYFlAr8g==", "secret"},
}

func TestVerifyPasswordOfMosquitto(t *testing.T) {
	t.Parallel()
	for name, h := range madeByMosquitto {
		verifies(t, name, h.encoded, h.password)
	}
}

// verifies checks that the hash accepts the password and no other.
func verifies(t *testing.T, name, encoded, password string) {
	t.Helper()
	for given, want := range map[string]bool{password: true, password + "x": false, "X" + password: false} {
		if got, err := VerifyPassword(encoded, []byte(given)); got != want || err != nil {
			t.Errorf("%s, password %q: got %v, %v, want %v", name, given, got, err, want)
		}
	}
}

func TestHashPassword(t *testing.T) {
	t.Parallel()
	first, err := HashPassword([]byte("secret"), 10)
	if err != nil {
		t.Fatal(err)
	}
	verifies(t, "own", first, "secret")
	parts := strings.Split(first, "$")
	salt, _ := base64.StdEncoding.DecodeString(parts[3])
	hash, _ := base64.StdEncoding.DecodeString(parts[4])
	if parts[1] != "7" || parts[2] != "10" || len(salt) != 64 || len(hash) != 64 {
		t.Errorf("got %q, want $7$10$ with 64 bytes of salt and of hash", first)
	}
	second, err := HashPassword([]byte("secret"), 10)
	if err != nil || second == first {
		t.Errorf("got the same hash twice or %v, want another salt", err)
	}
	for _, n := range []int{-1, 0, maxIterations + 1} {
		if _, err := HashPassword([]byte("secret"), n); !errors.Is(err, errPasswordCost) {
			t.Errorf("%d iterations: got %v, want %v", n, err, errPasswordCost)
		}
	}
}

const argonReference = "$argon2id$v=19$m=256,t=2,p=1$c29tZXNhbHQ$nf65EOgLrQMR/uIPnA4rEsF5h7TKyQwu9U1bMCHGi/4"

// argonHash returns the PHC form that libargon2, which Mosquitto uses, writes.
func argonHash(password string, salt []byte, memory, passes uint32, threads uint8, length uint32) string {
	enc := base64.RawStdEncoding
	hash := argon2.IDKey([]byte(password), salt, passes, memory, threads, length)
	return fmt.Sprintf("$argon2id$v=19$m=%d,t=%d,p=%d$%s$%s", memory, passes, threads, enc.EncodeToString(salt), enc.EncodeToString(hash))
}

func TestVerifyArgon2id(t *testing.T) {
	t.Parallel()
	salt := []byte(strings.Repeat("salt", 16))
	verifies(t, "as Mosquitto", argonHash("secret", salt, 47104, 1, 1, 64), "secret")
	verifies(t, "as others", argonHash("secret", salt[:16], 64, 3, 4, 32), "secret")
	// From the tests of the reference implementation.
	verifies(t, "reference", argonReference, "password")
}

func TestHashesThatAreRefused(t *testing.T) {
	t.Parallel()
	salt, hash := strings.Repeat("A", 16), strings.Repeat("A", 86)+"=="
	argon := "$" + strings.Repeat("A", 22) + "$" + strings.Repeat("A", 43)
	tests := map[string]error{
		"": errPasswordForm, "secret": errPasswordForm, "$": errPasswordForm, "$7$": errPasswordForm,
		"$6$" + salt + "$" + hash[4:]:                              errPasswordForm,
		"$6$" + salt:                                               errPasswordForm,
		"$6$AAAA$" + hash:                                          errPasswordForm,
		"$7$0$" + salt + "$" + hash:                                errPasswordForm,
		"$7$-1$" + salt + "$" + hash:                               errPasswordForm,
		"$7$x$" + salt + "$" + hash:                                errPasswordForm,
		"$7$9999999999$" + salt + "$" + hash:                       errPasswordForm,
		"$7$1000001$" + salt + "$" + hash:                          errPasswordCost,
		"$7$10$" + salt + "$" + hash + "$":                         errPasswordForm,
		"$7$10$" + salt + "AAAA$" + hash:                           errPasswordForm,
		"$7$10$!" + salt[1:] + "$" + hash:                          errPasswordForm,
		"$7$10$" + salt + "$" + hash[4:]:                           errPasswordForm,
		"$7$10$" + salt + "$" + hash[:85] + "B==":                  errPasswordForm,
		"$argon2id$v=16$m=64,t=1,p=1" + argon:                      errPasswordForm,
		"$argon2id$m=64,t=1,p=1" + argon:                           errPasswordForm,
		"$argon2i$v=19$m=64,t=1,p=1" + argon:                       errPasswordForm,
		"$argon2id$v=19$m=64,t=1" + argon:                          errPasswordForm,
		"$argon2id$v=19$t=1,m=64,p=1" + argon:                      errPasswordForm,
		"$argon2id$v=19$m=64,t=0,p=1" + argon:                      errPasswordForm,
		"$argon2id$v=19$m=64,t=1,p=0" + argon:                      errPasswordForm,
		"$argon2id$v=19$m=64,t=1,p=1,x=1" + argon:                  errPasswordForm,
		"$argon2id$v=19$m=64,t=1,p=1$AAAA$" + argon[24:]:           errPasswordForm,
		"$argon2id$v=19$m=64,t=1,p=1$" + salt + "$":                errPasswordForm,
		"$argon2id$v=19$m=64,t=1,p=1" + argon + "=":                errPasswordForm,
		"$argon2id$v=19$m=262145,t=1,p=1" + argon:                  errPasswordCost,
		"$argon2id$v=19$m=262144,t=5,p=1" + argon:                  errPasswordCost,
		"$argon2id$v=19$m=8,t=4294967295,p=1" + argon:              errPasswordCost,
		"$argon2id$v=19$m=64,t=1,p=256" + argon:                    errPasswordCost,
		"$argon2id$v=19$m=64,t=1,p=1$" + strings.Repeat("A", 1400): errPasswordForm,
	}
	for encoded, want := range tests {
		if ok, err := VerifyPassword(encoded, nil); ok || !errors.Is(err, want) {
			t.Errorf("%.40q: got %v, %v, want %v", encoded, ok, err, want)
		}
		if err := checkPasswordHash(encoded); !errors.Is(err, want) {
			t.Errorf("check of %.40q: got %v, want %v", encoded, err, want)
		}
	}
	for _, sound := range []string{"$7$1000000$" + salt + "$" + hash, "$argon2id$v=19$m=262144,t=4,p=1" + argon} {
		if err := checkPasswordHash(sound); err != nil {
			t.Errorf("check of %.40q: got %v, want none", sound, err)
		}
	}
}

// No hash makes the check panic or take long, whatever its origin.
func FuzzCheckPasswordHash(f *testing.F) {
	for _, h := range madeByMosquitto {
		f.Add(h.encoded)
	}
	f.Add(argonReference)
	f.Fuzz(func(t *testing.T, encoded string) {
		h, err := parseHash(encoded)
		if err != nil {
			if !errors.Is(err, errPasswordForm) && !errors.Is(err, errPasswordCost) {
				t.Errorf("got %v, want one of the two known errors", err)
			}
			return
		}
		if h.iterations < 1 && !IsWeakHash(encoded) || h.iterations > maxIterations && h.memory == 0 ||
			uint64(h.memory)*uint64(h.iterations) > maxArgonWork || len(h.hash) == 0 || len(h.salt) == 0 {
			t.Errorf("%q is taken with costs beyond the bounds", encoded)
		}
		if h.memory > 0 && h.threads < 1 {
			t.Errorf("%q is taken with no thread", encoded)
		}
	})
}

func BenchmarkVerifyPassword(b *testing.B) {
	for _, n := range []int{101, 1000, 10_000} {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			encoded, err := HashPassword([]byte("secret"), n)
			if err != nil {
				b.Fatal(err)
			}
			for b.Loop() {
				if ok, err := VerifyPassword(encoded, []byte("secret")); !ok || err != nil {
					b.Fatal(ok, err)
				}
			}
		})
	}
}

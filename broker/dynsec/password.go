package dynsec

import (
	"crypto/rand"
	"crypto/sha512"
	"crypto/subtle"
	"encoding/base64"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/crypto/argon2"

	"signalbox/broker/dynsec/pbkdf2"
)

// Sizes in bytes of the parts of a $7$ hash. Mosquitto accepts salts of these two
// lengths: 12 was written until 2.0, 64 is written since 2.1.
const (
	saltBytes    = 64
	oldSaltBytes = 12
	hashBytes    = pbkdf2.Size
)

// maxIterations bounds the work of one PBKDF2 check, about a second.
const maxIterations = 1_000_000

const argon2idPrefix = "$argon2id$"

// Bounds of one argon2id check: 256 MiB, and no more than four passes over that.
const (
	maxArgonMemory = 256 << 10 // KiB
	maxArgonWork   = 4 * maxArgonMemory
	maxArgonBytes  = 1 << 10 // of salt, and of hash
)

// Faults of a stored password.
var (
	errPasswordForm = errors.New("not a password hash of a known form")
	errPasswordCost = errors.New("password hash costs more than is allowed")
)

// HashPassword returns a hash of the form $7$iterations$salt$hash, which is PBKDF2 with
// SHA-512 and a random salt of 64 bytes, base64. Its time grows with iterations, 1 to
// [MaxIterations]: about half a microsecond each.
func HashPassword(password []byte, iterations int) (string, error) {
	if iterations < 1 || iterations > maxIterations {
		return "", fmt.Errorf("%w: %d iterations, allowed are 1 to %d", errPasswordCost, iterations, maxIterations)
	}
	salt := make([]byte, saltBytes)
	rand.Read(salt)
	hash, err := pbkdf2.Key(password, salt, iterations)
	if err != nil {
		return "", fmt.Errorf("derive key: %w", err)
	}
	return encodePBKDF2(iterations, salt, hash), nil
}

// IsWeakHash reports whether a hash is of Mosquitto's old type $6$, one round of
// SHA-512: an attacker who has it tries a thousand million passwords a second.
func IsWeakHash(encoded string) bool { return strings.HasPrefix(encoded, "$6$") }

// VerifyPassword reports whether the password matches the hash, in a time that does not
// depend on how much of it matches. It supports $7$, the PHC form of argon2id, and $6$,
// whose time is negligible. A hash of another form is an [ErrPasswordForm], one that
// would take too long an [ErrPasswordCost]; no work is done for either.
func VerifyPassword(encoded string, password []byte) (bool, error) {
	h, err := parseHash(encoded)
	if err != nil {
		return false, err
	}
	got, err := h.derive(password)
	if err != nil {
		return false, err
	}
	return subtle.ConstantTimeCompare(got, h.hash) == 1, nil
}

// IsMemoryHard reports whether a hash is argon2id, whose verification takes up to 256 MiB.
func IsMemoryHard(encoded string) bool { return strings.HasPrefix(encoded, argon2idPrefix) }

// checkPasswordHash returns the error that [VerifyPassword] would return for a hash.
func checkPasswordHash(encoded string) error {
	_, err := parseHash(encoded)
	return err
}

// passwordHash is a parsed hash. With memory it is argon2id, with iterations PBKDF2,
// else one round of SHA-512.
type passwordHash struct {
	salt, hash []byte
	iterations uint32
	memory     uint32 // KiB
	threads    uint8
}

func (h passwordHash) derive(password []byte) ([]byte, error) {
	if h.memory > 0 {
		return argon2.IDKey(password, h.salt, h.iterations, h.memory, h.threads, uint32(len(h.hash))), nil
	}
	if h.iterations == 0 {
		sum := sha512.Sum512(slices.Concat(password, h.salt))
		return sum[:], nil
	}
	key, err := pbkdf2.Key(password, h.salt, int(h.iterations))
	if err != nil {
		return nil, fmt.Errorf("derive key: %w", err)
	}
	return key, nil
}

func parseHash(encoded string) (passwordHash, error) {
	switch {
	case strings.HasPrefix(encoded, "$7$"):
		return parsePBKDF2(encoded)
	case IsMemoryHard(encoded):
		return parseArgon2id(encoded)
	case IsWeakHash(encoded):
		return parseSHA512(encoded)
	}
	return passwordHash{}, errPasswordForm
}

// parsePBKDF2 parses $7$iterations$salt$hash.
func parsePBKDF2(encoded string) (passwordHash, error) {
	parts := strings.Split(encoded, "$")
	if len(parts) != 5 {
		return passwordHash{}, fmt.Errorf("%w: $7$ has three parts", errPasswordForm)
	}
	n, err := strconv.ParseUint(parts[2], 10, 32)
	if err != nil || n < 1 {
		return passwordHash{}, fmt.Errorf("%w: iterations are no number above 0", errPasswordForm)
	}
	if n > maxIterations {
		return passwordHash{}, fmt.Errorf("%w: %d iterations, allowed are %d", errPasswordCost, n, maxIterations)
	}
	salt, err := base64.StdEncoding.Strict().DecodeString(parts[3])
	if err != nil || len(salt) != saltBytes && len(salt) != oldSaltBytes {
		return passwordHash{}, fmt.Errorf("%w: salt is not base64 of %d or %d bytes", errPasswordForm, oldSaltBytes, saltBytes)
	}
	hash, err := base64.StdEncoding.Strict().DecodeString(parts[4])
	if err != nil || len(hash) != hashBytes {
		return passwordHash{}, fmt.Errorf("%w: hash is not base64 of %d bytes", errPasswordForm, hashBytes)
	}
	return passwordHash{salt: salt, hash: hash, iterations: uint32(n)}, nil
}

// parseSHA512 parses $6$salt$hash.
func parseSHA512(encoded string) (passwordHash, error) {
	parts := strings.Split(encoded, "$")
	if len(parts) != 4 {
		return passwordHash{}, fmt.Errorf("%w: $6$ has two parts", errPasswordForm)
	}
	salt, err := base64.StdEncoding.Strict().DecodeString(parts[2])
	if err != nil || len(salt) != saltBytes && len(salt) != oldSaltBytes {
		return passwordHash{}, fmt.Errorf("%w: salt is not base64 of %d or %d bytes", errPasswordForm, oldSaltBytes, saltBytes)
	}
	hash, err := base64.StdEncoding.Strict().DecodeString(parts[3])
	if err != nil || len(hash) != hashBytes {
		return passwordHash{}, fmt.Errorf("%w: hash is not base64 of %d bytes", errPasswordForm, hashBytes)
	}
	return passwordHash{salt: salt, hash: hash}, nil
}

func encodePBKDF2(iterations int, salt, hash []byte) string {
	return fmt.Sprintf("$7$%d$%s$%s", iterations,
		base64.StdEncoding.EncodeToString(salt), base64.StdEncoding.EncodeToString(hash))
}

// parseArgon2id parses $argon2id$v=19$m=KiB,t=passes,p=threads$salt$hash.
func parseArgon2id(encoded string) (passwordHash, error) {
	parts := strings.Split(encoded, "$")
	if len(parts) != 6 || parts[2] != "v="+strconv.Itoa(argon2.Version) {
		return passwordHash{}, fmt.Errorf("%w: argon2id of version %d has four parts", errPasswordForm, argon2.Version)
	}
	h, err := parseArgonCost(parts[3])
	if err != nil {
		return passwordHash{}, err
	}
	enc := base64.RawStdEncoding.Strict()
	var errSalt, errHash error
	h.salt, errSalt = enc.DecodeString(parts[4])
	h.hash, errHash = enc.DecodeString(parts[5])
	if errors.Join(errSalt, errHash) != nil || !argonLength(h.salt, 8) || !argonLength(h.hash, 16) {
		return passwordHash{}, fmt.Errorf("%w: salt or hash is not base64 of a sound length", errPasswordForm)
	}
	return h, nil
}

func argonLength(b []byte, least int) bool { return len(b) >= least && len(b) <= maxArgonBytes }

// parseArgonCost reads m=KiB,t=passes,p=threads.
func parseArgonCost(s string) (passwordHash, error) {
	var cost [3]uint64
	parts := strings.Split(s, ",")
	for i, name := range []string{"m=", "t=", "p="} {
		if len(parts) != len(cost) {
			return passwordHash{}, fmt.Errorf("%w: costs are not m=,t=,p=", errPasswordForm)
		}
		digits, ok := strings.CutPrefix(parts[i], name)
		n, err := strconv.ParseUint(digits, 10, 32)
		if !ok || err != nil || n < 1 {
			return passwordHash{}, fmt.Errorf("%w: cost %s is no number above 0", errPasswordForm, name)
		}
		cost[i] = n
	}
	memory, passes, threads := cost[0], cost[1], cost[2]
	if memory > maxArgonMemory || memory*passes > maxArgonWork || threads > 255 {
		return passwordHash{}, fmt.Errorf("%w: %s", errPasswordCost, s)
	}
	return passwordHash{memory: uint32(memory), iterations: uint32(passes), threads: uint8(threads)}, nil
}

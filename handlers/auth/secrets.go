package auth

import (
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
)

const (
	tokenPrefix = "sbx_"
	secretSize  = 32 // bytes of randomness in a session or project token
)

var (
	sessionLen = base64.RawURLEncoding.EncodedLen(secretSize)
	tokenLen   = len(tokenPrefix) + sessionLen
)

// NewToken returns a new value of a project token, to be shown once, and the hash to
// store.
func NewToken() (value, hash string) {
	value = tokenPrefix + randomText()
	return value, digest(value)
}

func newSession() (value, hash string) {
	value = randomText()
	return value, digest(value)
}

func randomText() string {
	var b [secretSize]byte
	rand.Read(b[:])
	return base64.RawURLEncoding.EncodeToString(b[:])
}

// digest returns the SHA-256 of a token in hex. The tokens are random, so a slow hash
// would add nothing, and looking a digest up reveals nothing about others.
func digest(value string) string {
	sum := sha256.Sum256([]byte(value))
	return hex.EncodeToString(sum[:])
}

// alphabet has 32 characters that cannot be confused.
const alphabet = "abcdefghijkmnpqrstuvwxyz23456789"

// NewPassword returns a password of 20 characters (100 bits) that can be read aloud and
// typed.
func NewPassword() string {
	var b [20]byte
	rand.Read(b[:])
	for i := range b {
		b[i] = alphabet[b[i]%byte(len(alphabet))] // 256 is a multiple of 32: no bias
	}
	return string(b[:])
}

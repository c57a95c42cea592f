package broker

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"strings"
)

// Fingerprint is the SHA-256 of a certificate in DER.
type Fingerprint [sha256.Size]byte

// FingerprintOf returns the fingerprint of a certificate in DER.
func FingerprintOf(der []byte) Fingerprint { return sha256.Sum256(der) }

// ParseFingerprint reads 64 hexadecimal digits, with or without colons between the bytes.
func ParseFingerprint(text string) (f Fingerprint, err error) {
	digits := text
	if strings.Contains(text, ":") {
		pairs := strings.Split(text, ":")
		for _, pair := range pairs {
			if len(pair) != 2 {
				return f, errFingerprint
			}
		}
		digits = strings.Join(pairs, "")
	}
	b, err := hex.DecodeString(digits)
	if err != nil || len(b) != len(f) {
		return f, errFingerprint
	}
	return Fingerprint(b), nil
}

var errFingerprint = errors.New("must be the SHA-256 fingerprint of a certificate: 64 hexadecimal digits, with or without colons")

// String returns the fingerprint as openssl shows it: upper case, with colons.
func (f Fingerprint) String() string {
	digits := strings.ToUpper(hex.EncodeToString(f[:]))
	var b strings.Builder
	for i := 0; i < len(digits); i += 2 {
		if i > 0 {
			b.WriteByte(':')
		}
		b.WriteString(digits[i : i+2])
	}
	return b.String()
}

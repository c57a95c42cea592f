package console

import (
	"crypto/aes"
	"crypto/cipher"
	"crypto/rand"
	"encoding/base64"
	"strconv"
	"strings"
)

// sealer encrypts the secrets that a caller has typed in a form that is shown again, so that
// they need not be typed again and still are not sent to the browser. Only this process can
// decrypt them, for the same caller and form.
type sealer struct{ cipher cipher.AEAD }

func newSealer() sealer {
	key := make([]byte, 32)
	rand.Read(key)                                    //nolint:errcheck // never fails
	block, _ := aes.NewCipher(key)                    // the length of the key is right
	sealing, _ := cipher.NewGCMWithRandomNonce(block) // the block is that of AES
	return sealer{sealing}
}

// sealedPrefix distinguishes a sealed secret from others.
const sealedPrefix = "signalbox-sealed:"

// seal returns the sealed form of a secret; one that is masked, sealed or empty stays.
func (s sealer) seal(secret, of string) string {
	if secret == "" || secret == maskedSecret || strings.HasPrefix(secret, sealedPrefix) {
		return secret
	}
	return sealedPrefix + base64.RawURLEncoding.EncodeToString(s.cipher.Seal(nil, nil, []byte(secret), []byte(of)))
}

// open returns the secret of its sealed form, and whether it could be read; any other text
// is returned as it is.
func (s sealer) open(text, of string) (secret string, ok bool) {
	encoded, isSealed := strings.CutPrefix(text, sealedPrefix)
	if !isSealed {
		return text, true
	}
	b, err := base64.RawURLEncoding.DecodeString(encoded)
	if err != nil {
		return "", false
	}
	plain, err := s.cipher.Open(nil, nil, b, []byte(of))
	return string(plain), err == nil
}

// sealedIn returns the pointers of the values in a document whose text or name has a sealed
// secret.
func sealedIn(v any, pointer string) (all []string) {
	switch v := v.(type) {
	case string:
		if strings.Contains(v, sealedPrefix) {
			all = append(all, pointer)
		}
	case []any:
		for i, e := range v {
			all = append(all, sealedIn(e, below(pointer, strconv.Itoa(i)))...)
		}
	case *jsonObject:
		for _, m := range v.members {
			if strings.Contains(m.name, sealedPrefix) {
				all = append(all, below(pointer, m.name))
			}
			all = append(all, sealedIn(m.value, below(pointer, m.name))...)
		}
	}
	return all
}

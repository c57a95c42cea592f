package backup

import (
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"

	"filippo.io/age"
)

// maxSecretBytes bounds files with a pass phrase or a private key.
const maxSecretBytes = 64 << 10

// Recipient is who can decrypt a backup; the zero value is anybody, without encryption.
type Recipient struct{ age []age.Recipient }

// Identities decrypt a backup; the zero value decrypts none.
type Identities struct{ age []age.Identity }

// ParseRecipient parses a public key of age, as age-keygen prints it.
func ParseRecipient(text string) (Recipient, error) {
	r, err := age.ParseX25519Recipient(strings.TrimSpace(text))
	if err != nil {
		return Recipient{}, errors.New("must be a public key of age, which begins with age1, as \"age-keygen\" prints it")
	}
	return Recipient{[]age.Recipient{r}}, nil
}

// ParseRecipients parses public keys of age; a backup is decrypted with the private key of
// any of them. None is no encryption.
func ParseRecipients(texts []string) (all Recipient, err error) {
	for _, text := range texts {
		r, err := ParseRecipient(text)
		if err != nil {
			return Recipient{}, err
		}
		all.age = append(all.age, r.age...)
	}
	return all, nil
}

// withTemporary adds a recipient whose private key exists only in memory: a service that
// has public keys only verifies with it what it has written.
func (r Recipient) withTemporary() (Recipient, Identities, error) {
	if r.age == nil {
		return r, Identities{}, nil
	}
	key, err := age.GenerateX25519Identity()
	if err != nil {
		return r, Identities{}, err
	}
	return Recipient{append(slices.Clone(r.age), key.Recipient())}, Identities{[]age.Identity{key}}, nil
}

// PassphraseRecipient encrypts with the pass phrase in the first line of a file.
func PassphraseRecipient(file string) (Recipient, error) {
	phrase, err := readPassphrase(file)
	if err != nil {
		return Recipient{}, err
	}
	r, err := age.NewScryptRecipient(phrase)
	return Recipient{[]age.Recipient{r}}, err
}

// PassphraseIdentity decrypts with the pass phrase in the first line of a file.
func PassphraseIdentity(file string) (Identities, error) {
	phrase, err := readPassphrase(file)
	if err != nil {
		return Identities{}, err
	}
	i, err := age.NewScryptIdentity(phrase)
	return Identities{[]age.Identity{i}}, err
}

// ReadIdentities reads private keys of age from a file, as age-keygen writes it.
func ReadIdentities(file string) (Identities, error) {
	text, err := readBounded(file)
	if err != nil {
		return Identities{}, err
	}
	all, err := age.ParseIdentities(strings.NewReader(text))
	if err != nil { // which may repeat the key
		return Identities{}, fmt.Errorf("%s does not contain a private key of age, as \"age-keygen\" writes it", file)
	}
	return Identities{all}, nil
}

func readPassphrase(file string) (string, error) {
	text, err := readBounded(file)
	phrase, _, _ := strings.Cut(text, "\n")
	if phrase = strings.TrimSuffix(phrase, "\r"); err == nil && phrase == "" {
		err = fmt.Errorf("the first line of %s is empty: it must be the pass phrase", file)
	}
	return phrase, err
}

func readBounded(file string) (string, error) {
	f, err := os.Open(file)
	if err != nil {
		return "", err
	}
	defer f.Close() //nolint:errcheck // nothing was written
	b, err := io.ReadAll(io.LimitReader(f, maxSecretBytes+1))
	if err == nil && len(b) > maxSecretBytes {
		err = fmt.Errorf("%s is too large for a pass phrase or a key", file)
	}
	return string(b), err
}

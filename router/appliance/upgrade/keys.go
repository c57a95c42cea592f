// Package upgrade verifies a release, and puts its program in the place of an older one.
//
// A release is a bundle, which scripts/release makes, or a program with its signature
// beside it. DESIGN.md describes both. Of this module the package must import nothing but
// broker/storage.
package upgrade

import (
	"errors"
	"fmt"
	"os"
	"strings"

	"aead.dev/minisign"
)

// Keys are the public keys of minisign whose signatures are trusted; either may be empty.
type Keys struct {
	Release string // signs releases
	Change  string // signs another release key; its private key is kept offline
}

// ReadKeys returns the one key in a file, as minisign writes it.
func ReadKeys(file string) (Keys, error) {
	text, err := os.ReadFile(file)
	if err != nil {
		return Keys{}, err
	}
	var key minisign.PublicKey
	if err := key.UnmarshalText(text); err != nil {
		return Keys{}, fmt.Errorf("%s is not a public key of minisign, such as signalbox.pub: %w", file, err)
	}
	return Keys{Release: key.String()}, nil
}

// ErrNoKeys means that nothing can be verified.
var ErrNoKeys = errors.New("this program was built without the public key of releases, so it trusts no signed file: give the key with --key FILE, or replace the program by hand")

// changeOfKey is a new release key with the signature of the key for changes.
type changeOfKey struct{ key, signature []byte }

// verify returns an error unless the text was signed by the release key, or by the key of
// a change.
func (k Keys) verify(text, signature []byte, change changeOfKey) error {
	if k == (Keys{}) {
		return ErrNoKeys
	}
	var s minisign.Signature
	if err := s.UnmarshalText(signature); err != nil {
		return errors.New("the signature is not one of minisign: it is damaged")
	}
	keys, err := k.trusted(change)
	if err != nil {
		return err
	}
	var ids []string
	for _, key := range keys {
		if key.ID() == s.KeyID {
			if !minisign.Verify(key, text, signature) {
				return errors.New("the signature is wrong: what was signed is not what is in the file, which is damaged or was changed; get it again")
			}
			return nil
		}
		ids = append(ids, keyID(key.ID()))
	}
	return fmt.Errorf("the signature is of the key %s, which is not trusted: trusted are %s", keyID(s.KeyID), strings.Join(ids, " and "))
}

// keyID returns the identifier of a key as minisign shows it.
func keyID(id uint64) string { return fmt.Sprintf("%016X", id) }

// trusted returns the keys whose releases are accepted.
func (k Keys) trusted(change changeOfKey) (keys []minisign.PublicKey, err error) {
	if k.Release != "" {
		key, err := parseKey(k.Release)
		if err != nil {
			return nil, err
		}
		keys = append(keys, key)
	}
	if change.key == nil || k.Change == "" {
		return keys, nil
	}
	by, err := parseKey(k.Change)
	if err != nil {
		return nil, err
	}
	if !minisign.Verify(by, change.key, change.signature) {
		return nil, fmt.Errorf("%s, the new key of releases, is not signed by the key %s, which is trusted for that", keyName, keyID(by.ID()))
	}
	var key minisign.PublicKey
	if err := key.UnmarshalText(change.key); err != nil {
		return nil, fmt.Errorf("%s is not a public key of minisign: %w", keyName, err)
	}
	return append(keys, key), nil
}

func parseKey(text string) (key minisign.PublicKey, err error) {
	if err = key.UnmarshalText([]byte(text)); err != nil {
		return key, fmt.Errorf("the public key of releases that was built in is damaged: %w", err)
	}
	return key, nil
}

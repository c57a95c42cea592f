// Command sign writes a minisign signature of a file beside it, as FILE.minisig.
//
//	sign -key FILE [-comment TEXT] FILE
//	sign -key FILE -public
//
// The latter prints the public key.
//
// The key is a file as "minisign -G" writes it. Its password is read from the environment,
// MINISIGN_PASSWORD; a key that was made with "minisign -G -W" has none.
package main

import (
	"errors"
	"flag"
	"fmt"
	"os"

	"aead.dev/minisign"
)

func main() {
	key := flag.String("key", "", "the file with the private key")
	comment := flag.String("comment", "", "what the signature states too")
	public := flag.Bool("public", false, "print the public key")
	flag.Parse()
	do := func() error { return sign(*key, *comment, flag.Arg(0)) }
	if *public {
		do = func() error { return printPublic(*key) }
	}
	if err := do(); err != nil {
		fmt.Fprintln(os.Stderr, "sign:", err)
		os.Exit(1)
	}
}

func sign(keyFile, comment, name string) error {
	key, err := readKey(keyFile)
	if err != nil {
		return fmt.Errorf("read the private key %s: %w", keyFile, err)
	}
	text, err := os.ReadFile(name)
	if err != nil {
		return err
	}
	signature := minisign.SignWithComments(key, text, comment, "signature of signalbox")
	public, isKey := key.Public().(minisign.PublicKey)
	if !isKey || !minisign.Verify(public, text, signature) {
		return errors.New("the signature cannot be verified: the key is damaged")
	}
	return os.WriteFile(name+".minisig", signature, 0o644) //nolint:gosec // it is published
}

func printPublic(keyFile string) error {
	key, err := readKey(keyFile)
	if err != nil {
		return fmt.Errorf("read the private key %s: %w", keyFile, err)
	}
	_, err = fmt.Println(key.Public())
	return err
}

// readKey reads a private key, with or without a password.
func readKey(name string) (key minisign.PrivateKey, err error) {
	text, err := os.ReadFile(name)
	if err != nil {
		return key, err
	}
	if minisign.IsEncrypted(text) {
		return minisign.DecryptKey(os.Getenv("MINISIGN_PASSWORD"), text)
	}
	err = key.UnmarshalText(text)
	return key, err
}

package cli

import (
	"io"
	"strings"
)

// NewPassword reads a new password: from a file, from standard input for "-", or for ""
// twice from the terminal. The end of the line of a file is not part of it.
func (e *Env) NewPassword(stderr io.Writer, file string) (string, error) {
	if file == "" {
		return e.askTwice(stderr)
	}
	r, err := e.open(file, "--password-file")
	if err != nil {
		return "", err
	}
	text, err := readAll(r, file, maxToken)
	if err != nil {
		return "", err
	}
	password := withoutLineEnd(string(text))
	if password == "" || strings.ContainsAny(password, "\r\n") {
		return "", usage("--password-file: %s must have one line with the password", file)
	}
	return password, nil
}

// askTwice asks for a new password and its repetition.
func (e *Env) askTwice(stderr io.Writer) (string, error) {
	if !e.Terminal(e.Stdin) {
		return "", usage("--password-file or --generate is required, since standard input is not a terminal")
	}
	first, err := e.askPassword(stderr, "new password: ")
	if err != nil {
		return "", err
	}
	second, err := e.askPassword(stderr, "the same again: ")
	switch {
	case err != nil:
		return "", err
	case first == "":
		return "", usage("the password is empty")
	case first != second:
		return "", usage("the two passwords differ")
	}
	return first, nil
}

// WithCode returns an error that ends the command with an exit code.
func WithCode(code int, err error) error { return &failure{code: code, err: err} }

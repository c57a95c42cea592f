// Package target has what kinds of bridges share for connecting to their targets: error texts for
// operators, and HTTP clients.
//
// The package must not import a kind, nor know any protocol except HTTP.
package target

import (
	"errors"
	"strings"
	"unicode"
)

// explained is an error with a text for operators.
type explained struct {
	text  string
	cause error
}

// Explain returns an error with a text for operators that unwraps to its cause. The text must
// not contain anything that the target sent; the engine finds that in the cause.
func Explain(cause error, sentence string) error { return &explained{sentence, cause} }

// IsExplained reports whether an error has a text for operators.
func IsExplained(err error) bool {
	_, ok := errors.AsType[*explained](err)
	return ok
}

// Error returns the text.
func (e *explained) Error() string { return e.text }

// Unwrap returns the cause.
func (e *explained) Unwrap() error { return e.cause }

// Response returns what the target sent; see [bridges.ResponseError].
func (e *explained) Response() string { return Response(e.cause) }

// Excerpt returns the first bytes of a target's text, on one line and without unprintable
// characters.
func Excerpt(said string, most int) string {
	said = strings.Join(strings.FieldsFunc(strings.ToValidUTF8(said, ""), func(r rune) bool { return unicode.IsSpace(r) || !unicode.IsPrint(r) }), " ")
	if len(said) > most {
		said = strings.ToValidUTF8(said[:most], "") + "..."
	}
	return said
}

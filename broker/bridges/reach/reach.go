// Package reach has what kinds of bridges share on the way to their targets: the
// sentences for what may befall a connection, and clients of HTTP servers.
//
// It must not import a kind, nor anything that knows a protocol but HTTP.
package reach

import (
	"errors"
	"strings"
	"unicode"
)

// explained is an error with a sentence for an operator in place of its text.
type explained struct {
	sentence string
	cause    error
}

// Explained gives an error that says a sentence and unwraps to its cause. The sentence
// must hold nothing of what the target said; the engine finds that by the cause.
func Explained(cause error, sentence string) error { return &explained{sentence, cause} }

// IsExplained tells whether an error says a sentence already.
func IsExplained(err error) bool {
	_, ok := errors.AsType[*explained](err)
	return ok
}

// Error gives the sentence.
func (e *explained) Error() string { return e.sentence }

// Unwrap gives the cause.
func (e *explained) Unwrap() error { return e.cause }

// Answer returns what the cause says beyond the sentence: see [bridges.Answered].
func (e *explained) Answer() string { return Answer(e.cause) }

// Excerpt gives the beginning of what a target says, so many bytes of it, on one
// line and without what cannot be printed.
func Excerpt(said string, most int) string {
	said = strings.Join(strings.FieldsFunc(strings.ToValidUTF8(said, ""), func(r rune) bool { return unicode.IsSpace(r) || !unicode.IsPrint(r) }), " ")
	if len(said) > most {
		said = strings.ToValidUTF8(said[:most], "") + "..."
	}
	return said
}

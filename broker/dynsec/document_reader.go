package dynsec

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"

	"signalbox/broker"
)

// docReader reads the JSON of a document value by value, so that an error can name the
// line and the path of a fault. The first error stays: after it nothing is read and
// every value is zero.
type docReader struct {
	in         *textReader
	dec        *json.Decoder
	path       []step
	err        error
	warnings   []string
	noDefaults bool // the default access is null: it is not specified
	suppressed int  // warnings beyond maxWarnings
	unknown    map[string]bool

	roles []broker.RoleRef // of the client or group that is read
	held  map[string]bool  // their names
}

// step is one step of a path: the name of a member, or an index if that is not negative.
type step struct {
	member string
	index  int
}

// maxWarnings bounds how many warnings are kept.
const maxWarnings = 100

func newDocReader(from io.Reader) *docReader {
	in := &textReader{from: from}
	dec := json.NewDecoder(in)
	dec.UseNumber()
	return &docReader{in: in, dec: dec, unknown: make(map[string]bool)}
}

// fail sets the first error, with the current line and path.
func (r *docReader) fail(format string, args ...any) {
	if r.err == nil {
		r.err = invalidFile([]string{r.where() + fmt.Sprintf(format, args...)})
	}
}

func (r *docReader) warn(format string, args ...any) {
	switch {
	case r.err != nil:
	case len(r.warnings) == maxWarnings:
		r.suppressed++
	default:
		r.warnings = append(r.warnings, r.where()+fmt.Sprintf(format, args...))
	}
}

// where returns the line and path of the value that was read last.
func (r *docReader) where() string {
	ahead, _ := io.ReadAll(r.dec.Buffered())
	line := r.in.line() - bytes.Count(ahead, []byte{'\n'})
	if place := r.place(true); place != "" {
		return fmt.Sprintf("line %d: %s: ", line, place)
	}
	return fmt.Sprintf("line %d: ", line)
}

// place returns the path, with or without indexes.
func (r *docReader) place(indexed bool) string {
	var b []byte
	for _, s := range r.path {
		switch {
		case s.index < 0:
			b = append(append(b, '.'), s.member...)
		case indexed:
			b = fmt.Appendf(b, "[%d]", s.index)
		default:
			b = append(b, "[]"...)
		}
	}
	return strings.TrimPrefix(string(b), ".")
}

// token returns the next token, nil for null and after an error.
func (r *docReader) token() json.Token {
	if r.err != nil {
		return nil
	}
	t, err := r.dec.Token()
	if err != nil {
		r.failed(err)
	}
	return t
}

// failed sets the error of the decoder.
func (r *docReader) failed(err error) {
	switch {
	case r.in.err != nil:
		r.err = r.in.err
	case errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF):
		r.fail("the file ends too early")
	default:
		r.fail("not JSON: %v", err)
	}
}

// object calls each with every member's name, in lower case, and reports whether there
// is an object. A duplicate member is an error.
func (r *docReader) object(each func(member string)) bool {
	if !r.enter('{', "an object") {
		return false
	}
	seen := make(map[string]bool)
	for r.err == nil && r.dec.More() {
		name, _ := r.token().(string)
		r.path = append(r.path, step{member: name, index: -1})
		member := lower(name)
		if seen[member] {
			r.fail("is there twice")
		}
		seen[member] = true
		each(member)
		r.path = r.path[:len(r.path)-1]
	}
	r.token()
	return true
}

// array calls each for every element, which it must read.
func (r *docReader) array(each func()) {
	if !r.enter('[', "an array") {
		return
	}
	for i := 0; r.err == nil && r.dec.More(); i++ {
		r.path = append(r.path, step{index: i})
		each()
		r.path = r.path[:len(r.path)-1]
	}
	r.token()
}

// enter reports whether an object or array begins. Null counts as absent.
func (r *docReader) enter(open json.Delim, what string) bool {
	t := r.token()
	if t == open {
		return r.err == nil
	}
	if t != nil {
		r.fail("must be %s", what)
	}
	return false
}

// text reads a string; null is nil.
func (r *docReader) text() *string {
	t := r.token()
	s, ok := t.(string)
	if !ok {
		if t != nil {
			r.fail("must be a string")
		}
		return nil
	}
	return &s
}

// textOr reads a string; null is "".
func (r *docReader) textOr() string {
	if s := r.text(); s != nil {
		return *s
	}
	return ""
}

// name reads a string that can name something.
func (r *docReader) name() string {
	s := r.textOr()
	if problem := badName(s); problem != "" {
		r.fail("%s", problem)
	}
	return s
}

// flag reads a boolean; null is otherwise.
func (r *docReader) flag(otherwise bool) bool {
	t := r.token()
	b, ok := t.(bool)
	if !ok && t != nil {
		r.fail("must be true or false")
	}
	if !ok {
		return otherwise
	}
	return b
}

// number reads a number, without its fraction; null is otherwise.
func (r *docReader) number(otherwise int64) int64 {
	t := r.token()
	if t == nil {
		return otherwise
	}
	digits, ok := t.(json.Number)
	if !ok {
		r.fail("must be a number")
		return otherwise
	}
	if n, err := digits.Int64(); err == nil {
		return n
	}
	f, err := digits.Float64()
	if err != nil || f < -1<<53 || f > 1<<53 {
		r.fail("must be a number within ±2^53")
		return otherwise
	}
	return int64(f)
}

// skip skips a member that has no meaning here, and warns of it once.
func (r *docReader) skip() {
	kind := r.place(false)
	if !r.unknown[kind] {
		r.unknown[kind] = true
		r.warn("is not known here and passed over")
	}
	var raw json.RawMessage
	if r.err == nil {
		if err := r.dec.Decode(&raw); err != nil {
			r.failed(err)
		}
	}
}

// end checks that nothing follows.
func (r *docReader) end() {
	if r.err != nil {
		return
	}
	switch _, err := r.dec.Token(); {
	case r.in.err != nil:
		r.err = r.in.err
	case !errors.Is(err, io.EOF):
		r.fail("something follows after the end of the document")
	}
	if r.suppressed > 0 {
		r.warnings = append(r.warnings, fmt.Sprintf("%d more of these", r.suppressed))
	}
}

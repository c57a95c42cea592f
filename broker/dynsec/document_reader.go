package dynsec

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"

	"signalbox/broker"
)

// docReader reads the JSON of a document value by value, so that an error can name the
// line and the path of a fault. The first error stays: after it nothing is read and
// every value is zero.
type docReader struct {
	in         *textReader
	tokens     tokens
	path       []step
	err        error
	warnings   []string
	noDefaults bool // the default access is null: it is not specified
	suppressed int  // warnings beyond maxWarnings
	unknown    map[string]bool

	members map[string]memberName // by how they are written; at most maxShared
	names   map[string]string     // of roles that clients and groups have; at most maxShared
	roles   []broker.RoleRef      // of the client or group that is read
}

// memberName is the name of a member.
type memberName struct{ written, lower string }

// maxShared bounds how many names are kept so that their repetitions share them, and their bytes.
const maxShared = 1024

// step is one step of a path: the name of a member, or an index if that is not negative.
type step struct {
	member string
	index  int
}

// maxWarnings bounds how many warnings are kept.
const maxWarnings = 100

func newDocReader(from io.Reader) *docReader {
	in := &textReader{from: from}
	return &docReader{in: in, tokens: tokens{from: in}, unknown: map[string]bool{}, members: map[string]memberName{}, names: map[string]string{}}
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
	line := r.in.line() - bytes.Count(r.tokens.buffered(), []byte{'\n'})
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

// token returns the next token, none after an error.
func (r *docReader) token() token {
	if r.err != nil {
		return token{}
	}
	t, err := r.tokens.read()
	if err != nil {
		r.failed(err)
	}
	return t
}

// failed sets the error of the tokens.
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
	for r.err == nil && r.tokens.more() {
		name := r.memberName()
		r.path = append(r.path, step{member: name.written, index: -1})
		if seen[name.lower] {
			r.fail("is there twice")
		}
		seen[name.lower] = true
		each(name.lower)
		r.path = r.path[:len(r.path)-1]
	}
	r.token()
	return true
}

// memberName reads the name of a member.
func (r *docReader) memberName() memberName {
	text := r.token().text
	name, ok := r.members[string(text)]
	if !ok {
		name = memberName{string(text), lower(string(text))}
		if len(r.members) < maxShared && len(text) < maxShared {
			r.members[name.written] = name
		}
	}
	return name
}

// array calls each for every element, which it must read.
func (r *docReader) array(each func()) {
	if !r.enter('[', "an array") {
		return
	}
	for i := 0; r.err == nil && r.tokens.more(); i++ {
		r.path = append(r.path, step{index: i})
		each()
		r.path = r.path[:len(r.path)-1]
	}
	r.token()
}

// enter reports whether an object or array begins. Null counts as absent.
func (r *docReader) enter(open tokenKind, what string) bool {
	t := r.token()
	if t.kind == open {
		return true
	}
	r.must(t, what)
	return false
}

// must fails because a token is of another kind than it must be. Null counts as absent.
func (r *docReader) must(t token, be string) {
	if t.kind != nullToken {
		r.fail("must be %s", be)
	}
}

// text reads a string; null is nil.
func (r *docReader) text() *string {
	t := r.token()
	if t.kind != stringToken {
		r.must(t, "a string")
		return nil
	}
	s := string(t.text)
	return &s
}

// textOr reads a string; null is "".
func (r *docReader) textOr() string {
	t := r.token()
	if t.kind != stringToken {
		r.must(t, "a string")
	}
	return string(t.text)
}

// name reads a string that can name something.
func (r *docReader) name() string {
	s := r.textOr()
	if problem := badName(s); problem != "" {
		r.fail("%s", problem)
	}
	return s
}

// sharedName is name for one that other records have, too.
func (r *docReader) sharedName() string {
	t := r.token()
	if s, ok := r.names[string(t.text)]; ok && t.kind == stringToken {
		return s
	}
	if t.kind != stringToken {
		r.must(t, "a string")
	}
	s := string(t.text)
	if problem := badName(s); problem != "" {
		r.fail("%s", problem)
	} else if len(r.names) < maxShared && len(s) < maxShared {
		r.names[s] = s
	}
	return s
}

// flag reads a boolean; null is otherwise.
func (r *docReader) flag(otherwise bool) bool {
	t := r.token()
	switch t.kind {
	case trueToken, falseToken:
		return t.kind == trueToken
	}
	r.must(t, "true or false")
	return otherwise
}

// number reads a number, without its fraction; null is otherwise.
func (r *docReader) number(otherwise int64) int64 {
	t := r.token()
	if t.kind != numberToken {
		r.must(t, "a number")
		return otherwise
	}
	if n, err := strconv.ParseInt(string(t.text), 10, 64); err == nil {
		return n
	}
	f, err := strconv.ParseFloat(string(t.text), 64)
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
	for depth := 0; ; {
		switch r.token().kind {
		case '{', '[':
			depth++
		case '}', ']':
			depth--
		}
		if depth == 0 || r.err != nil {
			return
		}
	}
}

// end checks that nothing follows.
func (r *docReader) end() {
	if r.err != nil {
		return
	}
	switch _, err := r.tokens.read(); {
	case r.in.err != nil:
		r.err = r.in.err
	case !errors.Is(err, io.EOF):
		r.fail("something follows after the end of the document")
	}
	if r.suppressed > 0 {
		r.warnings = append(r.warnings, fmt.Sprintf("%d more of these", r.suppressed))
	}
}

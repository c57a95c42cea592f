package dynsec

import (
	"errors"
	"strconv"
	"unicode/utf16"
	"unicode/utf8"
)

// The parser of requests. encoding/json is not used because it would hide differences
// that matter: of members with the same name the first one counts, bytes that are not
// UTF-8 must be detected and not be replaced, and what follows the value is ignored.

// maxDepth bounds the nesting of values.
const maxDepth = 64

var errJSON = errors.New("not JSON")

// kind is the type of a JSON value.
type kind byte

const (
	nullKind kind = iota
	boolKind
	numberKind
	textKind
	arrayKind
	objectKind
)

// value is a JSON value. text is a string's content or a number's digits.
type value struct {
	kind    kind
	truth   bool
	text    string
	items   []value
	members []member
}

type member struct {
	name  string
	value value
}

// get returns the first member of that name, case-insensitively. A value that is not an
// object has no members.
func (v *value) get(name string) (*value, bool) {
	for i := range v.members {
		if equalFold(v.members[i].name, name) {
			return &v.members[i].value, true
		}
	}
	return nil, false
}

// equalFold compares names and ignores the case of ASCII letters.
func equalFold(a, b string) bool {
	if len(a) != len(b) {
		return false
	}
	for i := range len(a) {
		if lowerByte(a[i]) != lowerByte(b[i]) {
			return false
		}
	}
	return true
}

func lowerByte(c byte) byte {
	if 'A' <= c && c <= 'Z' {
		c += 'a' - 'A'
	}
	return c
}

func lower(s string) string {
	b := []byte(s)
	for i, c := range b {
		b[i] = lowerByte(c)
	}
	return string(b)
}

// parseJSON reads the value at the beginning of b.
func parseJSON(b []byte) (value, error) {
	p := parser{b: b}
	return p.value(0)
}

// parser reads b from i on.
type parser struct {
	b []byte
	i int
}

// next skips white space and returns the byte after it, or 0 at the end.
func (p *parser) next() byte {
	for p.i < len(p.b) {
		switch c := p.b[p.i]; c {
		case ' ', '\t', '\r', '\n':
			p.i++
		default:
			return c
		}
	}
	return 0
}

// take skips c if it comes next.
func (p *parser) take(c byte) bool {
	if p.next() != c || p.i == len(p.b) {
		return false
	}
	p.i++
	return true
}

func (p *parser) value(depth int) (value, error) {
	if depth > maxDepth {
		return value{}, errJSON
	}
	switch c := p.next(); {
	case c == '{':
		return p.object(depth)
	case c == '[':
		return p.array(depth)
	case c == '"':
		s, err := p.string()
		return value{kind: textKind, text: s}, err
	case c == '-' || '0' <= c && c <= '9':
		return p.number()
	}
	return p.word()
}

func (p *parser) word() (value, error) {
	for word, v := range words {
		if len(p.b)-p.i >= len(word) && string(p.b[p.i:p.i+len(word)]) == word {
			p.i += len(word)
			return v, nil
		}
	}
	return value{}, errJSON
}

var words = map[string]value{
	"null":  {kind: nullKind},
	"true":  {kind: boolKind, truth: true},
	"false": {kind: boolKind},
}

func (p *parser) array(depth int) (value, error) {
	v := value{kind: arrayKind}
	p.i++
	if p.take(']') {
		return v, nil
	}
	for {
		item, err := p.value(depth + 1)
		if err != nil {
			return v, err
		}
		v.items = append(v.items, item)
		if p.take(']') {
			return v, nil
		}
		if !p.take(',') {
			return v, errJSON
		}
	}
}

func (p *parser) object(depth int) (value, error) {
	v := value{kind: objectKind}
	p.i++
	if p.take('}') {
		return v, nil
	}
	for {
		m, err := p.member(depth)
		if err != nil {
			return v, err
		}
		v.members = append(v.members, m)
		if p.take('}') {
			return v, nil
		}
		if !p.take(',') {
			return v, errJSON
		}
	}
}

func (p *parser) member(depth int) (m member, err error) {
	if p.next() != '"' {
		return m, errJSON
	}
	if m.name, err = p.string(); err != nil {
		return m, err
	}
	if !p.take(':') {
		return m, errJSON
	}
	m.value, err = p.value(depth + 1)
	return m, err
}

// number reads a number. It checks the syntax only; the value is converted where it is
// used.
func (p *parser) number() (value, error) {
	from := p.i
	for p.i < len(p.b) && isNumeric(p.b[p.i]) {
		p.i++
	}
	s := string(p.b[from:p.i])
	if _, err := strconv.ParseFloat(s, 64); err != nil && !errors.Is(err, strconv.ErrRange) {
		return value{}, errJSON
	}
	return value{kind: numberKind, text: s}, nil
}

func isNumeric(c byte) bool {
	return '0' <= c && c <= '9' || c == '+' || c == '-' || c == '.' || c == 'e' || c == 'E'
}

// string reads a string at its opening quote. Its bytes are kept unchanged, UTF-8 or
// not; an escaped half of a surrogate pair is an error.
func (p *parser) string() (string, error) {
	p.i++
	from := p.i
	for i := from; i < len(p.b); i++ {
		switch p.b[i] {
		case '"':
			p.i = i + 1
			return string(p.b[from:i]), nil
		case '\\':
			p.i = i
			return p.escaped(p.b[from:i])
		}
	}
	return "", errJSON
}

// escaped reads the rest of a string that contains an escape; begun is what precedes
// it.
func (p *parser) escaped(begun []byte) (string, error) {
	s := append([]byte(nil), begun...)
	for p.i < len(p.b) {
		c := p.b[p.i]
		p.i++
		switch c {
		case '"':
			return string(s), nil
		case '\\':
			r, ok := p.escape()
			if !ok {
				return "", errJSON
			}
			s = utf8.AppendRune(s, r)
		default:
			s = append(s, c)
		}
	}
	return "", errJSON
}

// escape reads what follows a backslash.
func (p *parser) escape() (rune, bool) {
	if p.i == len(p.b) {
		return 0, false
	}
	c := p.b[p.i]
	p.i++
	switch c {
	case '"', '\\', '/':
		return rune(c), true
	case 'b':
		return '\b', true
	case 'f':
		return '\f', true
	case 'n':
		return '\n', true
	case 'r':
		return '\r', true
	case 't':
		return '\t', true
	case 'u':
		return p.unicode()
	}
	return 0, false
}

// unicode reads four hexadecimal digits and, where they are the first half of a
// surrogate pair, the escape with the second.
func (p *parser) unicode() (rune, bool) {
	r, ok := p.hex4()
	if !ok || !utf16.IsSurrogate(r) {
		return r, ok
	}
	if p.i+2 > len(p.b) || p.b[p.i] != '\\' || p.b[p.i+1] != 'u' {
		return 0, false
	}
	p.i += 2
	low, ok := p.hex4()
	r = utf16.DecodeRune(r, low)
	return r, ok && r != utf8.RuneError
}

func (p *parser) hex4() (rune, bool) {
	if p.i+4 > len(p.b) {
		return 0, false
	}
	n, err := strconv.ParseUint(string(p.b[p.i:p.i+4]), 16, 16)
	p.i += 4
	return rune(n), err == nil
}

package dynsec

import (
	"errors"
	"fmt"
	"io"
	"strconv"
	"unicode/utf8"
)

// tokens reads JSON token by token, as [encoding/json.Decoder.Token] does: it accepts and refuses the same
// documents, in a fraction of the time, since it allocates nothing for a token. The text must be UTF-8.
type tokens struct {
	from io.Reader
	err  error // of from; io.EOF at its end

	buf   []byte
	next  int // buf[next:] was not read yet
	open  []byte
	where position
	text  []byte // of the last string with an escape
}

// token is one token. Its text is valid until the next one is read.
type token struct {
	kind tokenKind
	text []byte // the content of a string, or the digits of a number
}

// tokenKind is the kind of a token: for a delimiter the character itself.
type tokenKind byte

const (
	stringToken tokenKind = '"'
	numberToken tokenKind = '0'
	trueToken   tokenKind = 't'
	falseToken  tokenKind = 'f'
	nullToken   tokenKind = 'n'
)

// position is where the next token is.
type position byte

const (
	atValue      position = iota // of the document, or a member
	atFirst                      // the first element of an array, or its end
	afterElement                 // a comma, or the end of an array
	atElement                    // an element after a comma
	atFirstName                  // the first name of an object, or its end
	afterMember                  // a comma, or the end of an object
	atName                       // a name after a comma
	afterName                    // a colon
	atEnd                        // nothing follows
)

// expected is what must be at a position, for messages.
var expected = [...]string{
	atValue: "where a value must begin", atFirst: "where a value must begin", afterElement: "after an array element",
	atElement: "where a value must begin", atFirstName: "where the name of a member must begin", afterMember: "after a member of an object",
	atName: "where the name of a member must begin", afterName: "after the name of a member", atEnd: "after the document",
}

const (
	tokensAtOnce = 64 << 10 // bytes that are read at once

	// maxOpen bounds how deep arrays and objects may be nested, as encoding/json does.
	maxOpen = 10_000
)

// buffered returns what was read of the reader, but not as a token yet.
func (t *tokens) buffered() []byte { return t.buf[t.next:] }

// fill reads more, and reports whether there is any. What was not read as a token yet moves to the
// beginning of buf.
func (t *tokens) fill() bool {
	if t.err != nil {
		return false
	}
	if t.next > 0 {
		t.buf = t.buf[:copy(t.buf, t.buf[t.next:])]
		t.next = 0
	}
	if len(t.buf) == cap(t.buf) {
		t.buf = append(make([]byte, 0, max(tokensAtOnce, 2*len(t.buf))), t.buf...)
	}
	for t.err == nil {
		var n int
		n, t.err = t.from.Read(t.buf[len(t.buf):cap(t.buf)])
		t.buf = t.buf[:len(t.buf)+n]
		if n > 0 {
			return true
		}
	}
	return false
}

// at returns the byte at an offset from next, and whether there is one.
func (t *tokens) at(offset int) (byte, bool) {
	for t.next+offset >= len(t.buf) {
		if !t.fill() {
			return 0, false
		}
	}
	return t.buf[t.next+offset], true
}

// peek skips white space and returns the byte after it.
func (t *tokens) peek() (byte, error) {
	for {
		for ; t.next < len(t.buf); t.next++ {
			switch c := t.buf[t.next]; c {
			case ' ', '\t', '\r', '\n':
			default:
				return c, nil
			}
		}
		if !t.fill() {
			return 0, t.end()
		}
	}
}

// end returns the error of what ends before the next token: io.EOF after the document.
func (t *tokens) end() error {
	if t.where == atEnd {
		return t.err
	}
	return t.within()
}

// within returns the error of a document that ends within a value.
func (t *tokens) within() error {
	if errors.Is(t.err, io.EOF) {
		return io.ErrUnexpectedEOF
	}
	return t.err
}

// more reports whether another element of the current array or object follows.
func (t *tokens) more() bool {
	c, err := t.peek()
	return err == nil && c != ']' && c != '}'
}

// read reads the next token. The error after the last one is io.EOF.
func (t *tokens) read() (token, error) {
	for {
		c, err := t.peek()
		if err != nil {
			return token{}, err
		}
		if (c == ',' || c == ':') && t.separator(c) {
			t.next++
			continue
		}
		return t.tokenAt(c)
	}
}

// separator reports whether a comma or colon is where one must be, and moves to what follows.
func (t *tokens) separator(c byte) bool {
	switch {
	case c == ',' && t.where == afterElement:
		t.where = atElement
	case c == ',' && t.where == afterMember:
		t.where = atName
	case c == ':' && t.where == afterName:
		t.where = atValue
	default:
		return false
	}
	return true
}

func (t *tokens) tokenAt(c byte) (token, error) {
	switch c {
	case ']':
		if t.where == atFirst || t.where == afterElement {
			return t.close(c)
		}
	case '}':
		if t.where == atFirstName || t.where == afterMember {
			return t.close(c)
		}
	case '"':
		if t.where == atFirstName || t.where == atName {
			text, err := t.string()
			t.where = afterName
			return token{stringToken, text}, err
		}
	}
	switch t.where {
	case atValue, atFirst, atElement:
		return t.value(c)
	}
	return token{}, t.invalid(expected[t.where])
}

// invalid returns the error of the byte that comes next.
func (t *tokens) invalid(where string) error {
	r, _ := utf8.DecodeRune(t.buf[t.next:])
	return fmt.Errorf("invalid character %s %s", strconv.QuoteRune(r), where)
}

// value reads a string, a number or a word, or the beginning of an object or array.
func (t *tokens) value(c byte) (v token, err error) {
	switch {
	case c == '{' || c == '[':
		return t.begin(c)
	case c == '"':
		v.kind = stringToken
		v.text, err = t.string()
	case c == '-' || isDigit(c):
		v.kind = numberToken
		v.text, err = t.number()
	case c == 't':
		v.kind, err = trueToken, t.word("true")
	case c == 'f':
		v.kind, err = falseToken, t.word("false")
	case c == 'n':
		v.kind, err = nullToken, t.word("null")
	default:
		err = t.invalid(expected[t.where])
	}
	if err != nil {
		return token{}, err
	}
	t.ended()
	return v, nil
}

// ended moves behind a value.
func (t *tokens) ended() {
	switch {
	case len(t.open) == 0:
		t.where = atEnd
	case t.open[len(t.open)-1] == '[':
		t.where = afterElement
	default:
		t.where = afterMember
	}
}

func (t *tokens) begin(c byte) (token, error) {
	if len(t.open) == maxOpen {
		return token{}, fmt.Errorf("more than %d arrays and objects within each other", maxOpen)
	}
	t.open = append(t.open, c)
	t.next++
	t.where = atFirst
	if c == '{' {
		t.where = atFirstName
	}
	return token{kind: tokenKind(c)}, nil
}

func (t *tokens) close(c byte) (token, error) {
	t.open = t.open[:len(t.open)-1]
	t.next++
	t.ended()
	return token{kind: tokenKind(c)}, nil
}

func (t *tokens) word(word string) error {
	for i := range len(word) {
		c, ok := t.at(i)
		if !ok {
			return t.within()
		}
		if c != word[i] {
			t.next += i
			return t.invalid("in the word " + word)
		}
	}
	t.next += len(word)
	return nil
}

package mapping

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
)

// Escape is the context of a template's text. It determines how values are escaped, so that a
// message cannot change the text around them.
type Escape int

// Contexts of templates.
const (
	EscapeNone Escape = iota // plain text; values are not escaped
	EscapePath               // a path or query of a URL; a value is escaped as one segment
	EscapeJSON               // a JSON document; a value becomes JSON, or part of a string within quotes
)

// maxTemplate is the maximum length of a template in bytes.
const maxTemplate = 64 << 10

// Template is a text with placeholders for parts of messages. It is safe for concurrent use.
type Template struct {
	pieces []piece
	check  bool // a value could make the result invalid JSON
}

// piece is literal text followed by an expression, which is nil at the end.
type piece struct {
	literal string
	value   *Expression
	write   filter
}

// filter appends a value in a certain form.
type filter func(dst []byte, v Value) []byte

var filters = map[string]filter{
	"raw":    AppendText,
	"json":   AppendJSON,
	"url":    appendURL,
	"path":   appendPath,
	"base64": appendBase64,
}

// ParseTemplate parses a text with placeholders such as ${topic} or ${payload|base64}; $${ is a
// literal ${. Filters are raw, json, url, path (like url, but slashes stay) and base64. The error
// text is a predicate without a subject.
func ParseTemplate(text string, e Escape) (*Template, error) {
	if len(text) > maxTemplate {
		return nil, fmt.Errorf("must have at most %d bytes", maxTemplate)
	}
	p := parser{rest: text, escape: e}
	if err := p.run(); err != nil {
		return nil, err
	}
	t := &Template{pieces: p.pieces, check: p.check}
	if e == EscapeJSON {
		return t, t.tryJSON()
	}
	return t, nil
}

// parser parses a template.
type parser struct {
	rest    string
	escape  Escape
	pieces  []piece
	literal []byte
	quotes  quoteState
	check   bool
}

func (p *parser) run() error {
	for {
		before, after, ok := strings.Cut(p.rest, "${")
		if !ok {
			p.text(p.rest)
			p.pieces = append(p.pieces, piece{literal: string(p.literal)})
			return nil
		}
		if text, isEscaped := strings.CutSuffix(before, "$"); isEscaped {
			p.text(text + "${")
			p.rest = after
			continue
		}
		p.text(before)
		end := placeholderEnd(after)
		if end < 0 {
			return errors.New("has a ${ that is not closed; a literal one is written $${")
		}
		if err := p.placeholder(after[:end]); err != nil {
			return fmt.Errorf("has ${%s}: %w", after[:end], err)
		}
		p.rest = after[end+1:]
	}
}

func (p *parser) text(s string) {
	p.literal = append(p.literal, s...)
	p.quotes.scan(s)
}

// placeholderEnd returns the index of the brace that closes a placeholder, which is not within
// quotes, or -1.
func placeholderEnd(s string) int {
	var q quoteState
	for i := range len(s) {
		if s[i] == '}' && !q.inside {
			return i
		}
		q.scan(s[i : i+1])
	}
	return -1
}

func (p *parser) placeholder(text string) error {
	name := ""
	if i := strings.LastIndexByte(text, '|'); i > strings.LastIndexByte(text, '"') {
		text, name = text[:i], strings.TrimSpace(text[i+1:])
		if _, ok := filters[name]; !ok {
			return fmt.Errorf("%q is none of the filters raw, json, url, path, base64", name)
		}
	}
	value, err := ParseExpression(strings.TrimSpace(text))
	if err != nil {
		return err
	}
	p.pieces = append(p.pieces, piece{string(p.literal), value, p.filter(name)})
	p.literal = p.literal[:0]
	return nil
}

// filter returns the filter with that name, or the default of the context. Only the JSON filters
// guarantee valid JSON; with any other, each result is validated.
func (p *parser) filter(name string) filter {
	switch {
	case p.escape == EscapePath && name == "":
		return appendURL
	case p.escape == EscapeJSON && (name == "" || name == "json"):
		if p.quotes.inside {
			return appendInString
		}
		return AppendJSON
	case name == "":
		return AppendText
	}
	p.check = p.check || p.escape == EscapeJSON
	return filters[name]
}

// quoteState tracks whether text is within a quoted string.
type quoteState struct{ inside, escaped bool }

func (q *quoteState) scan(s string) {
	for i := range len(s) {
		switch {
		case q.escaped:
			q.escaped = false
		case s[i] == '"':
			q.inside = !q.inside
		case s[i] == '\\':
			q.escaped = q.inside
		}
	}
}

// Append appends the text that the template makes from a message. The error is an *Unfit.
func (t *Template) Append(dst []byte, m *Message) ([]byte, error) {
	start := len(dst)
	for i := range t.pieces {
		p := &t.pieces[i]
		dst = append(dst, p.literal...)
		if p.value == nil {
			break
		}
		v, err := p.value.Value(m)
		if err != nil {
			return dst, err
		}
		if dst = p.write(dst, v); len(dst)-start > m.maxSize() {
			return dst, errTooLarge
		}
	}
	if t.check && !json.Valid(dst[start:]) {
		return dst, &Unfit{"the template does not make valid JSON from the message"}
	}
	return dst, nil
}

// Constant reports whether the text is the same for all messages.
func (t *Template) Constant() bool { return len(t.pieces) == 1 }

func appendBase64(dst []byte, v Value) []byte {
	if b, ok := v.([]byte); ok {
		return base64.StdEncoding.AppendEncode(dst, b)
	}
	return base64.StdEncoding.AppendEncode(dst, AppendText(nil, v))
}

func appendURL(dst []byte, v Value) []byte { return appendPercent(dst, v, "") }

func appendPath(dst []byte, v Value) []byte { return appendPercent(dst, v, "/") }

// appendPercent escapes all characters except the unreserved ones of RFC 3986 and those in stay.
func appendPercent(dst []byte, v Value, stay string) []byte {
	for _, b := range AppendText(nil, v) {
		if isUnreserved(b) || strings.IndexByte(stay, b) >= 0 {
			dst = append(dst, b)
			continue
		}
		dst = append(dst, '%', hexDigits[b>>4], hexDigits[b&15])
	}
	return dst
}

func isUnreserved(b byte) bool {
	return b >= '0' && b <= '9' || b >= 'A' && b <= 'Z' || b >= 'a' && b <= 'z' || bytes.IndexByte([]byte("-._~"), b) >= 0
}

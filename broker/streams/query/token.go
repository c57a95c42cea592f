package query

import (
	"unicode/utf16"
	"unicode/utf8"
)

// peek returns the next byte, or 0 at the end, with which no token begins.
func (s *scanner) peek() byte {
	if s.pos < len(s.text) {
		return s.text[s.pos]
	}
	return 0
}

// take skips the next byte if it is c, and reports whether it did.
func (s *scanner) take(c byte) bool {
	if s.pos < len(s.text) && s.text[s.pos] == c {
		s.pos++
		return true
	}
	return false
}

// space skips whitespace.
func (s *scanner) space() {
	for s.pos < len(s.text) {
		switch s.text[s.pos] {
		case ' ', '\t', '\n', '\r':
			s.pos++
		default:
			return
		}
	}
}

// word scans true, false or null.
func (s *scanner) word(w string) bool {
	if rest := s.text[s.pos:]; len(rest) < len(w) || string(rest[:len(w)]) != w {
		return false
	}
	s.pos += len(w)
	return true
}

// number scans a number (RFC 8259, section 6).
func (s *scanner) number() bool {
	s.take('-')
	if !s.take('0') && !s.digits() {
		return false
	}
	if s.take('.') && !s.digits() {
		return false
	}
	if s.take('e') || s.take('E') {
		if !s.take('+') {
			s.take('-')
		}
		return s.digits()
	}
	return true
}

// digits skips digits, and reports whether there was at least one.
func (s *scanner) digits() bool {
	from := s.pos
	for s.pos < len(s.text) && isDigit(s.text[s.pos]) {
		s.pos++
	}
	return s.pos > from
}

func isDigit(c byte) bool { return '0' <= c && c <= '9' }

// quoted scans a string (RFC 8259, section 7) and reports whether it has
// escapes. Like encoding/json, it accepts bytes that are not UTF-8.
func (s *scanner) quoted() (escaped, ok bool) {
	if !s.take('"') {
		return false, false
	}
	for {
		i := s.pos
		for i < len(s.text) && s.text[i] != '"' && s.text[i] != '\\' && s.text[i] >= ' ' {
			i++
		}
		s.pos = i
		if !s.take('\\') {
			return escaped, s.take('"')
		}
		if escaped = true; !s.escape() {
			return false, false
		}
	}
}

// escape scans what follows a backslash.
func (s *scanner) escape() bool {
	c := s.peek()
	s.pos++
	switch c {
	case '"', '\\', '/', 'b', 'f', 'n', 'r', 't':
		return true
	case 'u':
		return s.hex4()
	}
	return false
}

// hex4 skips four hexadecimal digits.
func (s *scanner) hex4() bool {
	for range 4 {
		c := s.peek()
		s.pos++
		if !isDigit(c) && (c|0x20 < 'a' || 'f' < c|0x20) {
			return false
		}
	}
	return true
}

// unescape appends the text of a valid string, which is passed with its quotes.
// As in encoding/json, an unpaired surrogate becomes U+FFFD. Bytes that are not
// UTF-8 are copied.
func unescape(dst, quoted []byte) []byte {
	for i := 1; i < len(quoted)-1; {
		if quoted[i] != '\\' {
			dst = append(dst, quoted[i])
			i++
			continue
		}
		r, size := escaped(quoted[i:])
		dst = utf8.AppendRune(dst, r)
		i += size
	}
	return dst
}

// escaped returns the character of the escape sequence at the beginning of
// text, and its length in bytes.
func escaped(text []byte) (r rune, size int) {
	switch text[1] {
	case 'b':
		return '\b', 2
	case 'f':
		return '\f', 2
	case 'n':
		return '\n', 2
	case 'r':
		return '\r', 2
	case 't':
		return '\t', 2
	case 'u':
		return surrogates(text)
	}
	return rune(text[1]), 2
}

// surrogates returns the character of one \u escape, or of two that are a
// surrogate pair.
func surrogates(text []byte) (r rune, size int) {
	r = unit(text[2:6])
	if !utf16.IsSurrogate(r) {
		return r, 6
	}
	if len(text) >= 12 && text[6] == '\\' && text[7] == 'u' {
		if pair := utf16.DecodeRune(r, unit(text[8:12])); pair != utf8.RuneError {
			return pair, 12
		}
	}
	return utf8.RuneError, 6
}

// unit returns the value of four hexadecimal digits.
func unit(hex []byte) (r rune) {
	for _, c := range hex {
		if isDigit(c) {
			r = r<<4 | rune(c-'0')
		} else {
			r = r<<4 | rune(c|0x20-'a'+10)
		}
	}
	return r
}

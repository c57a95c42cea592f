package dynsec

import (
	"unicode/utf16"
	"unicode/utf8"
)

func isDigit(c byte) bool { return '0' <= c && c <= '9' }

// number reads a number: -?(0|[1-9][0-9]*)(.[0-9]+)?([eE][+-]?[0-9]+)?
func (t *tokens) number() ([]byte, error) {
	n := 0
	if c, _ := t.at(0); c == '-' {
		n++
	}
	if c, ok := t.at(n); ok && c == '0' {
		n++
	} else if n, ok = t.digits(n); !ok {
		return nil, t.badNumber(n)
	}
	var ok bool
	if c, _ := t.at(n); c == '.' {
		if n, ok = t.digits(n + 1); !ok {
			return nil, t.badNumber(n)
		}
	}
	if c, _ := t.at(n); c == 'e' || c == 'E' {
		n++
		if c, _ := t.at(n); c == '+' || c == '-' {
			n++
		}
		if n, ok = t.digits(n); !ok {
			return nil, t.badNumber(n)
		}
	}
	text := t.buf[t.next : t.next+n]
	t.next += n
	return text, nil
}

// digits returns the offset after the digits from one on, and whether there are any.
func (t *tokens) digits(from int) (end int, ok bool) {
	for end = from; ; end++ {
		if c, _ := t.at(end); !isDigit(c) {
			return end, end > from
		}
	}
}

func (t *tokens) badNumber(offset int) error {
	if _, ok := t.at(offset); !ok {
		return t.within()
	}
	t.next += offset
	return t.invalid("in a number")
}

// string reads a string.
func (t *tokens) string() ([]byte, error) {
	t.next++
	for n := 0; ; {
		for b := t.buf[t.next:]; n < len(b); n++ {
			switch c := b[n]; {
			case c == '"':
				t.next += n + 1
				return b[:n:n], nil
			case c == '\\' || c < ' ':
				return t.escaped(n)
			}
		}
		if !t.fill() {
			return nil, t.within()
		}
	}
}

// escaped reads the rest of a string, from an offset on at which there is an escape.
func (t *tokens) escaped(n int) ([]byte, error) {
	t.text = append(t.text[:0], t.buf[t.next:t.next+n]...)
	t.next += n
	for {
		c, ok := t.at(0)
		switch {
		case !ok:
			return nil, t.within()
		case c == '"':
			t.next++
			return t.text, nil
		case c < ' ':
			return nil, t.invalid("in a string")
		case c != '\\':
			t.text = append(t.text, c)
			t.next++
		default:
			if err := t.escape(); err != nil {
				return nil, err
			}
		}
	}
}

// escapes are the characters that follow a backslash, and what they stand for.
var escapes = map[byte]byte{'"': '"', '\\': '\\', '/': '/', 'b': '\b', 'f': '\f', 'n': '\n', 'r': '\r', 't': '\t'}

// escape reads an escape, at its backslash.
func (t *tokens) escape() error {
	c, ok := t.at(1)
	if !ok {
		return t.within()
	}
	if c == 'u' {
		return t.escapedRune()
	}
	plain, ok := escapes[c]
	if t.next++; !ok {
		return t.invalid("in the escape of a string")
	}
	t.next++
	t.text = append(t.text, plain)
	return nil
}

// escapedRune reads an escaped character; two escapes that are the halves of one are read as one. Half a
// character counts as U+FFFD.
func (t *tokens) escapedRune() error {
	r, err := t.hex4()
	if err != nil {
		return err
	}
	if utf16.IsSurrogate(r) {
		r = t.otherHalf(r)
	}
	t.text = utf8.AppendRune(t.text, r)
	return nil
}

// otherHalf returns the character whose first half was read, if its second one follows.
func (t *tokens) otherHalf(first rune) rune {
	if _, ok := t.at(5); !ok || t.buf[t.next] != '\\' || t.buf[t.next+1] != 'u' {
		return utf8.RuneError
	}
	second, ok := hexadecimal(t.buf[t.next+2 : t.next+6])
	r := utf16.DecodeRune(first, second)
	if !ok || r == utf8.RuneError {
		return utf8.RuneError
	}
	t.next += 6
	return r
}

// hex4 reads a backslash, u and four hexadecimal digits.
func (t *tokens) hex4() (rune, error) {
	for i := 2; i < 6; i++ {
		c, ok := t.at(i)
		if !ok {
			return 0, t.within()
		}
		if _, ok := hexadecimal([]byte{c}); !ok {
			t.next += i
			return 0, t.invalid("in the escape of a string")
		}
	}
	r, _ := hexadecimal(t.buf[t.next+2 : t.next+6])
	t.next += 6
	return r, nil
}

// hexadecimal returns the number with these digits, and whether they are such.
func hexadecimal(digits []byte) (n rune, ok bool) {
	for _, c := range digits {
		switch {
		case isDigit(c):
			n = n<<4 | rune(c-'0')
		case 'a' <= c && c <= 'f':
			n = n<<4 | rune(c-'a'+10)
		case 'A' <= c && c <= 'F':
			n = n<<4 | rune(c-'A'+10)
		default:
			return 0, false
		}
	}
	return n, true
}

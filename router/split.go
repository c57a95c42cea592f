package router

import (
	"bytes"
	"encoding/json"
	"iter"
	"strconv"
	"strings"
	"unicode/utf16"
	"unicode/utf8"
)

// checkJSON returns the error of a request body, or "". The functions below require a
// body that passed. Text that is not UTF-8 is refused rather than repaired: a repaired
// name would be another name.
func checkJSON(body []byte) string {
	if len(bytes.TrimSpace(body)) == 0 {
		return "is required and must be one JSON value"
	}
	if !utf8.Valid(body) {
		return "is not valid UTF-8"
	}
	if !json.Valid(body) {
		return "must be one JSON value"
	}
	return ""
}

// members yields the members of a JSON object in order, names unescaped. The standard
// library has no such iterator: it matches names regardless of case and does not detect
// duplicate members.
func members(object []byte) iter.Seq2[string, json.RawMessage] {
	return func(yield func(string, json.RawMessage) bool) {
		rest := skipSpace(object[1:])
		for rest[0] != '}' {
			n := valueLen(rest)
			name := unquote(rest[:n])
			rest = skipSpace(skipSpace(rest[n:])[1:]) // the colon
			n = valueLen(rest)
			if !yield(name, json.RawMessage(rest[:n:n])) {
				return
			}
			rest = skipComma(rest[n:])
		}
	}
}

// elements yields the entries of a JSON array in order.
func elements(array []byte) iter.Seq2[int, json.RawMessage] {
	return func(yield func(int, json.RawMessage) bool) {
		rest := skipSpace(array[1:])
		for i := 0; rest[0] != ']'; i++ {
			n := valueLen(rest)
			if !yield(i, json.RawMessage(rest[:n:n])) {
				return
			}
			rest = skipComma(rest[n:])
		}
	}
}

func skipSpace(b []byte) []byte {
	for len(b) > 0 && (b[0] == ' ' || b[0] == '\t' || b[0] == '\n' || b[0] == '\r') {
		b = b[1:]
	}
	return b
}

func skipComma(b []byte) []byte {
	b = skipSpace(b)
	if b[0] == ',' {
		b = skipSpace(b[1:])
	}
	return b
}

// valueLen returns the length of the JSON value at the start of b.
func valueLen(b []byte) int {
	switch b[0] {
	case '"':
		return stringLen(b)
	case '{', '[':
		return nestedLen(b)
	}
	if n := bytes.IndexAny(b, ",]} \t\r\n"); n >= 0 {
		return n
	}
	return len(b)
}

func stringLen(b []byte) int {
	for i := 1; ; i++ {
		switch b[i] {
		case '\\':
			i++
		case '"':
			return i + 1
		}
	}
}

func nestedLen(b []byte) int {
	depth := 0
	for i := 0; ; i++ {
		switch b[i] {
		case '"':
			i += stringLen(b[i:]) - 1
		case '{', '[':
			depth++
		case '}', ']':
			if depth--; depth == 0 {
				return i + 1
			}
		}
	}
}

// loneSurrogate is the error text for a value for which hasLoneSurrogate is true.
const loneSurrogate = "holds half of a surrogate pair (\\ud800 to \\udfff), which stands for no character"

// hasLoneSurrogate reports whether a JSON value escapes half of a UTF-16 surrogate
// pair. The standard library reads each as U+FFFD, so that different names would
// become one.
func hasLoneSurrogate(value []byte) bool {
	for {
		i := bytes.IndexByte(value, '\\')
		if i < 0 {
			return false
		}
		value = value[i:]
		r := escapedRune(value)
		switch {
		case r < 0:
			value = value[2:]
		case !utf16.IsSurrogate(r):
			value = value[6:]
		case utf16.DecodeRune(r, escapedRune(value[6:])) == utf8.RuneError:
			return true
		default:
			value = value[12:]
		}
	}
}

// escapedRune returns the code unit of a \u escape at the start of b, -1 for none.
func escapedRune(b []byte) rune {
	if len(b) < 6 || b[0] != '\\' || b[1] != 'u' {
		return -1
	}
	n, err := strconv.ParseUint(string(b[2:6]), 16, 16)
	if err != nil {
		return -1
	}
	return rune(n)
}

// unquote returns the text of a JSON string.
func unquote(quoted []byte) string {
	inner := string(quoted[1 : len(quoted)-1])
	if !strings.Contains(inner, `\`) {
		return inner
	}
	var s string
	if err := json.Unmarshal(quoted, &s); err != nil {
		return inner // checkJSON has excluded it
	}
	return s
}

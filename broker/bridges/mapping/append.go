package mapping

import (
	"encoding/base64"
	"encoding/json"
	"math"
	"strconv"
	"time"
	"unicode/utf8"
)

// timeLayout is RFC 3339 with milliseconds.
const timeLayout = "2006-01-02T15:04:05.000Z07:00"

// AppendText appends a value as plain text: bytes and strings unchanged, times as RFC 3339 with
// milliseconds, and nothing for nil.
func AppendText(dst []byte, v Value) []byte {
	switch v := v.(type) {
	case []byte:
		return append(dst, v...)
	case string:
		return append(dst, v...)
	case int64:
		return strconv.AppendInt(dst, v, 10)
	case float64:
		return appendFloat(dst, v)
	case bool:
		return strconv.AppendBool(dst, v)
	case time.Time:
		return v.UTC().AppendFormat(dst, timeLayout)
	case json.RawMessage:
		return append(dst, v...)
	}
	return dst
}

// AppendJSON appends a value as JSON: bytes as text if they are UTF-8, otherwise as base64, times
// as RFC 3339 with milliseconds, and null for nil.
func AppendJSON(dst []byte, v Value) []byte {
	switch v := v.(type) {
	case nil:
		return append(dst, "null"...)
	case []byte:
		dst = appendEscapedBytes(append(dst, '"'), v)
		return append(dst, '"')
	case string:
		return appendQuoted(dst, v)
	case time.Time:
		dst = AppendText(append(dst, '"'), v)
		return append(dst, '"')
	}
	return AppendText(dst, v)
}

// appendInString appends a value as part of a JSON string.
func appendInString(dst []byte, v Value) []byte {
	switch v := v.(type) {
	case []byte:
		return appendEscapedBytes(dst, v)
	case string:
		return appendEscaped(dst, v)
	case json.RawMessage:
		return appendEscaped(dst, string(v))
	}
	return AppendText(dst, v)
}

func appendEscapedBytes(dst, b []byte) []byte {
	if utf8.Valid(b) {
		return appendEscaped(dst, string(b))
	}
	return base64.StdEncoding.AppendEncode(dst, b)
}

// appendFloat formats a number as encoding/json does.
func appendFloat(dst []byte, f float64) []byte {
	format := byte('f')
	if abs := math.Abs(f); abs != 0 && (abs < 1e-6 || abs >= 1e21) {
		format = 'e'
	}
	return strconv.AppendFloat(dst, f, format, -1, 64)
}

func appendQuoted(dst []byte, s string) []byte {
	return append(appendEscaped(append(dst, '"'), s), '"')
}

// appendEscaped appends text as part of a JSON string. Invalid UTF-8 becomes U+FFFD.
func appendEscaped(dst []byte, s string) []byte {
	for i, r := range s {
		switch {
		case r == '"' || r == '\\':
			dst = append(dst, '\\', byte(r))
		case r == '\n':
			dst = append(dst, `\n`...)
		case r < ' ' || r == 0x7f:
			dst = append(dst, `\u00`...)
			dst = append(dst, hexDigits[s[i]>>4], hexDigits[s[i]&15])
		default:
			dst = utf8.AppendRune(dst, r)
		}
	}
	return dst
}

const hexDigits = "0123456789ABCDEF"

package mapping

import (
	"encoding/json"
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"
)

// types maps names to conversions of values that are not nil. A conversion returns false if the
// value does not have the type.
var types = map[string]func(v Value) (Value, bool){
	"":        func(v Value) (Value, bool) { return v, true },
	"string":  toText,
	"number":  toNumber,
	"integer": toInteger,
	"boolean": toBoolean,
	"json":    toJSON,
	"time":    toTime,
}

// Types returns the names of the types.
func Types() []string { return []string{"string", "number", "integer", "boolean", "json", "time"} }

// Convert converts a value that is not nil to a type. It reports whether that is possible.
func Convert(v Value, typ string) (Value, bool) { return types[typ](v) }

// textOf returns the text of a payload or string, which may be parsed as another type.
func textOf(v Value) (string, bool) {
	switch v := v.(type) {
	case []byte:
		return strings.TrimSpace(string(v)), true
	case string:
		return strings.TrimSpace(v), true
	}
	return "", false
}

func toText(v Value) (Value, bool) {
	switch v := v.(type) {
	case string:
		return v, true
	case []byte:
		return string(v), utf8.Valid(v)
	}
	return string(AppendText(nil, v)), true
}

func toNumber(v Value) (Value, bool) {
	switch v := v.(type) {
	case float64:
		return v, true
	case int64:
		return float64(v), true
	case time.Time:
		return float64(v.UnixMilli()), true
	}
	text, ok := textOf(v)
	if !ok || !isDecimal(text) {
		return nil, false
	}
	f, err := strconv.ParseFloat(text, 64)
	return f, err == nil && !math.IsInf(f, 0)
}

// isDecimal excludes other forms that strconv accepts: words, underscores and hexadecimal
// numbers.
func isDecimal(text string) bool {
	return text != "" && strings.Trim(text, "+-.0123456789eE") == ""
}

// maxExact is the largest integer up to which float64 represents all integers.
const maxExact = 1 << 53

func toInteger(v Value) (Value, bool) {
	switch v := v.(type) {
	case int64:
		return v, true
	case float64:
		return int64(v), math.Trunc(v) == v && math.Abs(v) <= maxExact
	case time.Time:
		return v.UnixMilli(), true
	}
	text, ok := textOf(v)
	if !ok {
		return nil, false
	}
	if n, err := strconv.ParseInt(text, 10, 64); err == nil {
		return n, true
	}
	f, ok := toNumber(v)
	if !ok {
		return nil, false
	}
	return toInteger(f)
}

func toBoolean(v Value) (Value, bool) {
	switch v := v.(type) {
	case bool:
		return v, true
	case int64:
		return v == 1, v == 0 || v == 1
	case float64:
		return v == 1, v == 0 || v == 1
	}
	text, _ := textOf(v)
	switch strings.ToLower(text) {
	case "true", "1":
		return true, true
	case "false", "0":
		return false, true
	}
	return nil, false
}

// toJSON takes a payload as JSON, and converts any other value to JSON.
func toJSON(v Value) (Value, bool) {
	switch v := v.(type) {
	case json.RawMessage:
		return v, true
	case []byte:
		return json.RawMessage(v), json.Valid(v)
	}
	return json.RawMessage(AppendJSON(nil, v)), true
}

// The years that RFC 3339 can represent.
var (
	earliest = time.Date(0, 1, 1, 0, 0, 0, 0, time.UTC).UnixMilli()
	latest   = time.Date(9999, 12, 31, 23, 59, 59, 0, time.UTC).UnixMilli()
)

// toTime accepts RFC 3339 or a number of milliseconds since 1970.
func toTime(v Value) (Value, bool) {
	if t, ok := v.(time.Time); ok {
		return t, true
	}
	if text, ok := textOf(v); ok && !isDecimal(text) {
		t, err := time.Parse(time.RFC3339Nano, text)
		ms := t.UnixMilli()
		return t.UTC(), err == nil && ms >= earliest && ms <= latest
	}
	f, ok := toNumber(v)
	if !ok {
		return nil, false
	}
	ms := int64(f.(float64))
	return time.UnixMilli(ms).UTC(), math.Abs(f.(float64)) < maxExact && ms >= earliest && ms <= latest
}

// constant parses a value of a document as a type.
func constant(raw json.RawMessage, typ string) (Value, error) {
	if typ == "json" {
		return raw, nil
	}
	var doc any
	if err := json.Unmarshal(raw, &doc); err != nil {
		return nil, fmt.Errorf("is not JSON: %w", err)
	}
	var v Value
	switch d := doc.(type) {
	case nil:
		return nil, nil
	case string, bool:
		v = d
	case float64:
		n, err := numberOf(strings.TrimSpace(string(raw)))
		if err != nil {
			return nil, err
		}
		v = n
	default:
		v = raw
	}
	to, ok := types[typ](v)
	if !ok {
		return nil, fmt.Errorf("must be a value of type %s", typ)
	}
	return to, nil
}

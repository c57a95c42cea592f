package query

import (
	"encoding/json"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"
)

// maxInterval bounds the size and offset of a bucket, in milliseconds: more
// than 30,000 years, and far from the limits of an int64.
const maxInterval = 1e15

// refuse records a problem.
func (c *compiler) refuse(at, msg string) {
	c.problems = append(c.problems, Problem{Path: at, Msg: msg})
}

// isAbsent reports whether a member is missing or null.
func isAbsent(raw json.RawMessage) bool { return len(raw) == 0 || kindOf(raw) == isNull }

// object reads the members of an object into a struct of raw messages.
func (c *compiler) object(at string, raw json.RawMessage, into any) bool {
	if isAbsent(raw) || json.Unmarshal(raw, into) != nil {
		c.refuse(at, "must be an object")
		return false
	}
	if c.strict {
		c.refuseUnknown(at, raw, reflect.TypeOf(into).Elem())
	}
	return true
}

// refuseUnknown records the members of an object that its struct does not have.
func (c *compiler) refuseUnknown(at string, raw json.RawMessage, known reflect.Type) {
	var all map[string]json.RawMessage
	json.Unmarshal(raw, &all) //nolint:errcheck // it was parsed before
	for _, name := range slices.Sorted(maps.Keys(all)) {
		if _, ok := known.FieldByNameFunc(func(field string) bool { return strings.EqualFold(field, name) }); !ok {
			c.refuse(strings.TrimPrefix(at+"."+name, "."), "is not a member of this object")
		}
	}
}

// list reads the elements of an array, and none of an array with more than
// most.
func (c *compiler) list(at string, raw json.RawMessage, most int) (all []json.RawMessage) {
	switch {
	case isAbsent(raw):
		return nil
	case json.Unmarshal(raw, &all) != nil:
		c.refuse(at, "must be an array")
		return nil
	case len(all) > most:
		c.refuse(at, fmt.Sprintf("must not have more elements than %d", most))
		return nil
	}
	return all
}

// text reads a string, and reports whether there is a valid one.
func (c *compiler) text(at string, raw json.RawMessage) (s string, given bool) {
	if isAbsent(raw) {
		return "", false
	}
	if json.Unmarshal(raw, &s) != nil {
		c.refuse(at, "must be a string")
		return "", false
	}
	return s, true
}

// required reads a string that must be present.
func (c *compiler) required(at string, raw json.RawMessage) (s string, given bool) {
	if isAbsent(raw) {
		c.refuse(at, "is required")
		return "", false
	}
	return c.text(at, raw)
}

// path reads a path, and reports whether there is a valid one.
func (c *compiler) path(at string, raw json.RawMessage) (names []string, given bool) {
	text, given := c.text(at, raw)
	names, problem := parsePath(text)
	if problem != "" {
		c.refuse(at, problem)
		return nil, false
	}
	return names, given
}

// seconds reads a number of seconds, returns it in milliseconds, and reports
// whether there is a valid one.
func (c *compiler) seconds(at string, raw json.RawMessage) (ms int64, given bool) {
	if isAbsent(raw) {
		return 0, false
	}
	n, ok := parseNumber(raw)
	if !ok {
		c.refuse(at, "must be a number")
		return 0, false
	}
	if ms, ok = n.scaled(3); !ok || ms < -maxInterval || ms > maxInterval {
		c.refuse(at, "must be seconds with at most 3 decimals, not beyond 1e12")
		return 0, false
	}
	return ms, true
}

// appendQuoted appends a name as a JSON string with as few escapes as possible.
func appendQuoted(dst []byte, name string) []byte {
	const hex = "0123456789abcdef"
	dst = append(dst, '"')
	for _, c := range []byte(name) {
		switch {
		case c == '"', c == '\\':
			dst = append(dst, '\\', c)
		case c < ' ':
			dst = append(dst, '\\', 'u', '0', '0', hex[c>>4], hex[c&15])
		default:
			dst = append(dst, c)
		}
	}
	return append(dst, '"')
}

package query

import (
	"encoding/json"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"
)

// maxInterval is the size and offset that a bucket may have, in milliseconds:
// more than 30,000 years, and far from where int64 ends.
const maxInterval = 1e15

// refuse notes a problem.
func (c *compiler) refuse(at, msg string) {
	c.problems = append(c.problems, Problem{Path: at, Msg: msg})
}

// isAbsent tells whether a member is not given, or null.
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

// refuseUnknown notes the members that an object has and its struct has not.
func (c *compiler) refuseUnknown(at string, raw json.RawMessage, known reflect.Type) {
	var all map[string]json.RawMessage
	json.Unmarshal(raw, &all) //nolint:errcheck // it was read before
	for _, name := range slices.Sorted(maps.Keys(all)) {
		if _, ok := known.FieldByNameFunc(func(field string) bool { return strings.EqualFold(field, name) }); !ok {
			c.refuse(strings.TrimPrefix(at+"."+name, "."), "is not a member of this object")
		}
	}
}

// list reads the elements of an array, none of one that has more than most.
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

// text reads a string, and tells whether there is one.
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

// required reads a string that must be given.
func (c *compiler) required(at string, raw json.RawMessage) (s string, given bool) {
	if isAbsent(raw) {
		c.refuse(at, "is required")
		return "", false
	}
	return c.text(at, raw)
}

// path reads a path, and tells whether there is one.
func (c *compiler) path(at string, raw json.RawMessage) (names []string, given bool) {
	text, given := c.text(at, raw)
	names, complaint := parsePath(text)
	if complaint != "" {
		c.refuse(at, complaint)
		return nil, false
	}
	return names, given
}

// seconds reads a number of seconds in milliseconds, and tells whether there is
// one that can be used.
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

// appendQuoted appends a name as a JSON string, with no more escapes than it
// needs.
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

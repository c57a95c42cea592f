package query

import "bytes"

// condition compares a value with a literal. A nil condition is none.
type condition struct {
	left     operand
	operator string
	right    literal
}

// literal is the right side of a condition. The text of a string is without
// quotes and escapes.
type literal struct {
	kind   jsonKind
	text   []byte
	number number
}

// onMessage reports whether the left side is a value of the message.
func (c *condition) onMessage() bool { return c != nil && c.left.kind == member }

// onResult reports whether the left side is computed: an aggregate or the
// bucket.
func (c *condition) onResult() bool { return c != nil && c.left.kind != member }

// holds reports whether the left side has a value and the comparison is true.
func (c *condition) holds(q *Query, payload []byte, s *State) bool {
	var left []byte
	if c.left.kind == member {
		left = s.scanner.spans[c.left.index].of(payload)
	} else {
		s.scratch = q.append(s.scratch[:0], payload, s, c.left)
		left = s.scratch
	}
	if len(left) == 0 {
		return false
	}
	if kindOf(left) != c.right.kind {
		return c.operator == "!="
	}
	return c.allows(c.compare(left, s))
}

// compare compares a value of the literal's kind with the literal, and returns
// -1, 0 or 1. Booleans have no order: 0 means equal.
func (c *condition) compare(left []byte, s *State) int {
	switch c.right.kind {
	case isNumber:
		n, _ := parseNumber(left)
		return n.compare(c.right.number)
	case isString:
		if bytes.IndexByte(left, '\\') < 0 {
			return bytes.Compare(left[1:len(left)-1], c.right.text)
		}
		s.scratch = unescape(s.scratch[:0], left)
		return bytes.Compare(s.scratch, c.right.text)
	default:
		return bytes.Compare(left, c.right.text)
	}
}

func (c *condition) allows(order int) bool {
	switch c.operator {
	case "==":
		return order == 0
	case "!=":
		return order != 0
	case ">":
		return order > 0
	case "<":
		return order < 0
	case ">=":
		return order >= 0
	default: // "<="
		return order <= 0
	}
}

// jsonKind is the type of a JSON value.
type jsonKind byte

const (
	isNumber jsonKind = iota
	isString
	isBoolean
	isNull
	isArray
	isObject
)

// kindOf returns the type of a valid value, which must not be empty.
func kindOf(text []byte) jsonKind {
	switch text[0] {
	case '"':
		return isString
	case 't', 'f':
		return isBoolean
	case 'n':
		return isNull
	case '[':
		return isArray
	case '{':
		return isObject
	}
	return isNumber
}

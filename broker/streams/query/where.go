package query

import "bytes"

// condition compares a value with a literal. A nil condition is none.
type condition struct {
	left     operand
	operator string
	right    literal
}

// literal is what a condition compares with: text is that of a string without
// its quotes and escapes, or as written.
type literal struct {
	kind   jsonKind
	text   []byte
	number number
}

// onMessage tells whether the condition asks for something that is in the
// message.
func (c *condition) onMessage() bool { return c != nil && c.left.kind == member }

// onResult tells whether it asks for something that is computed.
func (c *condition) onResult() bool { return c != nil && c.left.kind != member }

// holds tells whether the left side is there and compares as asked.
func (c *condition) holds(q *Query, payload []byte, s *State) bool {
	var left []byte
	if c.left.kind == member {
		left = s.scanner.spans[c.left.index].of(payload)
	} else {
		s.text = q.append(s.text[:0], payload, s, c.left)
		left = s.text
	}
	if len(left) == 0 {
		return false
	}
	if kindOf(left) != c.right.kind {
		return c.operator == "!="
	}
	return c.allows(c.compare(left, s))
}

// compare gives -1, 0 or 1 for a value of the literal's kind. Of booleans it
// tells only whether they are equal.
func (c *condition) compare(left []byte, s *State) int {
	switch c.right.kind {
	case isNumber:
		n, _ := parseNumber(left)
		return n.compare(c.right.number)
	case isString:
		if bytes.IndexByte(left, '\\') < 0 {
			return bytes.Compare(left[1:len(left)-1], c.right.text)
		}
		s.text = unescape(s.text[:0], left)
		return bytes.Compare(s.text, c.right.text)
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

// kindOf gives the type of a well-formed value that is there.
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

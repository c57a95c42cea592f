package query

import (
	"encoding/json"
	"slices"
	"strings"
)

// operators are those of a condition.
var operators = []string{"==", "!=", ">", "<", ">=", "<="}

// condition compiles the element of where.
func (c *compiler) condition(at string, raw json.RawMessage) {
	var m struct{ Operator, Left, Right json.RawMessage }
	if !c.object(at, raw, &m) {
		return
	}
	w := &condition{operator: c.operator(at+".operator", m.Operator)}
	w.left = c.left(at+".left", m.Left)
	w.right = c.right(at+".right", m.Right)
	if w.right.kind == isBoolean && w.operator != "" && w.operator != "==" && w.operator != "!=" {
		c.refuse(at+".operator", "must be == or != where right is a boolean")
	}
	c.q.where = w
}

// operator reads an operator. It is empty if there is none that is valid.
func (c *compiler) operator(at string, raw json.RawMessage) string {
	text, given := c.required(at, raw)
	if given && !slices.Contains(operators, text) {
		c.refuse(at, "must be ==, !=, >, <, >= or <=")
		return ""
	}
	return text
}

// left compiles the left side: an alias or a path.
func (c *compiler) left(at string, raw json.RawMessage) operand {
	text, given := c.required(at, raw)
	if !given {
		return operand{}
	}
	if strings.HasPrefix(text, "[") {
		path, _ := c.path(at, raw)
		return operand{member, c.slot(path)}
	}
	value, known := c.aliases[text]
	if !known {
		c.refuse(at, "must be the alias of a select, or a path in brackets")
	}
	return value
}

// right reads the literal on the right side.
func (c *compiler) right(at string, raw json.RawMessage) (l literal) {
	if len(raw) == 0 {
		c.refuse(at, "is required")
		return l
	}
	l.kind, l.text = kindOf(raw), raw
	switch l.kind {
	case isNumber:
		l.number, _ = parseNumber(raw)
	case isString:
		text, _ := c.text(at, raw)
		l.text = []byte(text)
	case isBoolean:
	default:
		c.refuse(at, "must be a string, a number or a boolean")
	}
	return l
}

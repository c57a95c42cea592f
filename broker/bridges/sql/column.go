package sql

import (
	"encoding/json"
	"fmt"
	"strconv"
	"strings"

	"signalbox/broker/bridges/mapping"
)

// shape is what a table is like.
type shape struct {
	columns []column
	loose   bool   // the case of their names does not matter
	trouble string // why nothing can be inserted into it; a sentence without its subject
}

// column is one of a table.
type column struct {
	name      string
	typ       string // as the database calls it
	kind      kind
	required  bool // a row must have a value for it
	generated bool // the database alone makes its values
	closed    bool // the user may not insert into it
}

// kind is what a column holds, as far as values are made for it.
type kind int

const (
	words      kind = iota // text, and what the database reads from text
	whole                  // integers
	numbers                // other numbers
	truth                  // booleans
	moments                // dates and times
	octets                 // bytes
	structured             // JSON
	lists                  // arrays of PostgreSQL
	bits                   // BIT of MySQL
)

// value makes what a field of a record has one for the column, as group has them.
// The error says why that cannot be. What is left to the database to read is text.
func (c *column) value(v mapping.Value) (any, error) {
	if v == nil {
		return nil, nil
	}
	switch c.kind {
	case whole:
		return c.whole(v)
	case bits:
		if n, ok := toInteger(v); ok {
			return n, nil
		}
		return nil, c.unfit(v)
	case numbers:
		return number(v), nil
	case truth:
		if b, ok := mapping.Convert(v, "boolean"); ok {
			return b, nil
		}
		if strings.HasPrefix(c.typ, "tinyint") { // it holds other integers too
			return c.whole(v)
		}
	case moments:
		if t, ok := mapping.Convert(v, "time"); ok {
			return t, nil
		}
	case octets:
		if b, ok := v.([]byte); ok {
			return b, nil
		}
		return mapping.AppendText(nil, v), nil
	case structured:
		if b, ok := v.([]byte); ok { // a payload that is said to be JSON
			return string(b), nil
		}
		return string(mapping.AppendJSON(nil, v)), nil
	case lists:
		if raw, ok := v.(json.RawMessage); ok {
			return arrayLiteral(raw), nil
		}
	case words:
	}
	return text(v), nil
}

// whole keeps databases from rounding.
func (c *column) whole(v mapping.Value) (any, error) {
	if n, ok := toInteger(v); ok {
		return strconv.FormatInt(n, 10), nil
	}
	digits := strings.TrimSpace(text(v))
	if unsigned := strings.TrimLeft(digits, "+-"); unsigned == "" || strings.Trim(unsigned, "0123456789") != "" {
		return nil, c.unfit(v)
	}
	return digits, nil // more than an int64 holds, which columns may
}

// toInteger takes booleans too, as 0 and 1.
func toInteger(v mapping.Value) (int64, bool) {
	if b, ok := v.(bool); ok {
		if b {
			return 1, true
		}
		return 0, true
	}
	n, ok := mapping.Convert(v, "integer")
	if !ok {
		return 0, false
	}
	i, ok := n.(int64)
	return i, ok
}

// number gives text with all digits, of which the database says whether it is a
// number.
func number(v mapping.Value) any {
	switch v := v.(type) {
	case float64:
		return strconv.FormatFloat(v, 'g', -1, 64)
	case []byte, string:
		return strings.TrimSpace(text(v))
	}
	if n, ok := toInteger(v); ok {
		return strconv.FormatInt(n, 10)
	}
	return text(v)
}

func text(v mapping.Value) string { return string(mapping.AppendText(nil, v)) }

// shown is how much of a value a reason shows, in bytes.
const shown = 60

func (c *column) unfit(v mapping.Value) error {
	given := text(v)
	if len(given) > shown {
		given = strings.ToValidUTF8(given[:shown], "") + "…"
	}
	return fmt.Errorf("the column %q is of type %s, which %q is not", c.name, c.typ, given)
}

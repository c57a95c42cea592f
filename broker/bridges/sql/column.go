package sql

import (
	"encoding/json"
	"fmt"
	"strconv"
	"strings"

	"signalbox/broker/bridges/mapping"
)

// tableSchema is the schema of a table.
type tableSchema struct {
	columns     []column
	ignoresCase bool   // column names are case-insensitive
	problem     string // why rows cannot be inserted; a predicate whose subject is the table
}

// column is a column of a table.
type column struct {
	name      string
	typ       string // the database's name for the type
	kind      kind
	required  bool // a row must have a value for it
	generated bool // its values are computed by the database
	denied    bool // the user has no privilege to insert into it
}

// kind is the group of types that a column belongs to when values are converted.
type kind int

const (
	kindText    kind = iota // text, and every type that the database parses from text
	kindInteger             // integers
	kindNumber              // other numbers
	kindBoolean             // booleans
	kindTime                // dates and times
	kindBytes               // bytes
	kindJSON                // JSON
	kindArray               // arrays of PostgreSQL
	kindBits                // BIT of MySQL
)

// value converts the value of a field for the column, see group. The error explains why it does not
// fit. A value that the database parses itself is returned as text.
//
//revive:disable-next-line:cyclomatic // a flat list of one case for each kind of column
func (c *column) value(v mapping.Value) (any, error) {
	if v == nil {
		return nil, nil
	}
	switch c.kind {
	case kindInteger:
		return c.integer(v)
	case kindBits:
		if n, ok := toInteger(v); ok {
			return n, nil
		}
		return nil, c.misfit(v)
	case kindNumber:
		return number(v), nil
	case kindBoolean:
		if b, ok := mapping.Convert(v, "boolean"); ok {
			return b, nil
		}
		if strings.HasPrefix(c.typ, "tinyint") { // it holds other integers too
			return c.integer(v)
		}
	case kindTime:
		if t, ok := mapping.Convert(v, "time"); ok {
			return t, nil
		}
	case kindBytes:
		if b, ok := v.([]byte); ok {
			return b, nil
		}
		return mapping.AppendText(nil, v), nil
	case kindJSON:
		if b, ok := v.([]byte); ok { // a payload that is declared to be JSON
			return string(b), nil
		}
		return string(mapping.AppendJSON(nil, v)), nil
	case kindArray:
		if raw, ok := v.(json.RawMessage); ok {
			return arrayLiteral(raw), nil
		}
	case kindText:
	}
	return text(v), nil
}

// integer converts to an integer, because databases would round a fraction.
func (c *column) integer(v mapping.Value) (any, error) {
	if n, ok := toInteger(v); ok {
		return strconv.FormatInt(n, 10), nil
	}
	digits := strings.TrimSpace(text(v))
	if unsigned := strings.TrimLeft(digits, "+-"); unsigned == "" || strings.Trim(unsigned, "0123456789") != "" {
		return nil, c.misfit(v)
	}
	return digits, nil // exceeds an int64, which columns may hold
}

// toInteger also converts booleans, to 0 and 1.
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

// number returns text with all digits; the database decides whether it is a number.
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

// maxShown is the maximum length of a value in an error text, in bytes.
const maxShown = 60

func (c *column) misfit(v mapping.Value) error {
	shown := text(v)
	if len(shown) > maxShown {
		shown = strings.ToValidUTF8(shown[:maxShown], "") + "…"
	}
	return fmt.Errorf("the column %q is of type %s, which %q is not", c.name, c.typ, shown)
}

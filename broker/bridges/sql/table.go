package sql

import (
	"errors"
	"fmt"
	"strings"
	"unicode/utf8"
)

// table names a table. An empty schema leaves it to the database to find the table.
type table struct{ schema, name string }

// String returns the name as it is configured.
func (t table) String() string {
	if t.schema == "" {
		return t.name
	}
	return t.schema + "." + t.name
}

// quoted returns the name as it is written in statements.
func (t table) quoted(quote func(string) string) string {
	if t.schema == "" {
		return quote(t.name)
	}
	return quote(t.schema) + "." + quote(t.name)
}

// parseTable parses a table's name with an optional schema before it. Each name may have up to
// longest bytes.
func parseTable(text string, longest int) (table, error) {
	parts := strings.Split(text, ".")
	if len(parts) > 2 {
		return table{}, errors.New(`must be a table's name, or a schema's and a table's as in "plant.sensor"`)
	}
	for _, part := range parts {
		if err := checkName(part, longest); err != nil {
			return table{}, err
		}
	}
	if len(parts) == 1 {
		return table{name: parts[0]}, nil
	}
	return table{parts[0], parts[1]}, nil
}

// checkName returns an error if name is not valid for a schema, table or column.
func checkName(name string, longest int) error {
	switch {
	case name == "":
		return errors.New("must not have an empty name")
	case len(name) > longest:
		return fmt.Errorf("must not have a name longer than %d bytes", longest)
	case !utf8.ValidString(name), strings.ContainsRune(name, 0):
		return errors.New("must not have characters that no name has")
	case strings.TrimSpace(name) != name:
		return errors.New("must not begin or end with a space")
	}
	return nil
}

// doubleQuoted returns a quoted identifier of standard SQL.
func doubleQuoted(name string) string { return `"` + strings.ReplaceAll(name, `"`, `""`) + `"` }

// backQuoted returns a quoted identifier of MySQL.
func backQuoted(name string) string { return "`" + strings.ReplaceAll(name, "`", "``") + "`" }

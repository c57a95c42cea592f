package router

import (
	"encoding/csv"
	"encoding/json"
	"errors"
	"fmt"
	"mime"
	"net/http"
	"net/url"
	"reflect"
	"strings"
)

// The parameter that every list has, and its values.
const (
	formatParameter = "format"
	formatJSON      = "json"
	formatCSV       = "csv"
)

// csvMedia is the media type of a list as CSV [RFC 4180].
const csvMedia = "text/csv; charset=utf-8"

// csvColumn is a column of a list as CSV: a member of an entry, or of an object in it.
type csvColumn struct{ path []string }

// name returns the head of the column, as in status.connected.
func (c csvColumn) name() string { return strings.Join(c.path, ".") }

// csvColumns returns the columns of a list, nil if the row returns none.
func csvColumns(row *route, types shapes) ([]csvColumn, error) {
	if row.Serve != nil || row.Do.result == nil || row.Method != http.MethodGet {
		return nil, nil
	}
	l, ok := reflect.Zero(row.Do.result).Interface().(listed)
	if !ok {
		return nil, nil
	}
	sh, err := types.of(reflect.TypeOf(l.Item()))
	if err != nil {
		return nil, err
	}
	return appendColumns(nil, sh, nil), nil
}

// appendColumns appends the columns of the members of an object, and of the objects in it.
func appendColumns(columns []csvColumn, sh *shape, path []string) []csvColumn {
	for sh.inner != nil {
		sh = sh.inner
	}
	if sh.kind != object {
		return append(columns, csvColumn{path})
	}
	for _, m := range sh.members {
		columns = appendColumns(columns, m.shape, append(path[:len(path):len(path)], m.name))
	}
	return columns
}

// bindFormat records a format of a list that does not exist.
func (row *route) bindFormat(bad *problems, raw string) {
	values, err := url.ParseQuery(raw)
	if row.columns == nil || err != nil { // bindQuery reports the error
		return
	}
	for _, format := range values[formatParameter] {
		if format != formatJSON && format != formatCSV {
			bad.add(&place{parent: &place{name: "query"}, name: formatParameter}, "must be json or csv")
			return
		}
	}
}

// csvTable writes the entries of a list as CSV.
type csvTable struct {
	columns []csvColumn
	out     *csv.Writer
	cells   []string
}

// head writes the names of the columns.
func (t *csvTable) head() error {
	for _, c := range t.columns {
		t.cells = append(t.cells, c.name())
	}
	return t.flush()
}

// add writes an entry. One that is a name alone is in the first column.
func (t *csvTable) add(entry any) error {
	text, err := json.Marshal(entry)
	if err != nil {
		return err
	}
	t.cells = t.cells[:0]
	if name, isName := entry.(string); isName {
		t.cells = append(t.cells, cellText(name))
		return t.flush()
	}
	members := map[string]json.RawMessage{}
	if err := json.Unmarshal(text, &members); err != nil {
		return err
	}
	for _, c := range t.columns {
		cell, err := cellOf(members, c.path)
		if err != nil {
			return fmt.Errorf("%s: %w", c.name(), err)
		}
		t.cells = append(t.cells, cell)
	}
	return t.flush()
}

func (t *csvTable) flush() error {
	for len(t.cells) < len(t.columns) {
		t.cells = append(t.cells, "")
	}
	err := t.out.Write(t.cells)
	t.out.Flush()
	return err
}

// cellOf returns a member as a cell: a string as it is, anything else as JSON, and nothing for null
// and what is absent.
func cellOf(members map[string]json.RawMessage, path []string) (string, error) {
	value, ok := members[path[0]]
	if !ok || string(value) == "null" {
		return "", nil
	}
	if len(path) > 1 {
		inner := map[string]json.RawMessage{}
		if err := json.Unmarshal(value, &inner); err != nil {
			return "", err
		}
		return cellOf(inner, path[1:])
	}
	if value[0] != '"' {
		return string(value), nil
	}
	var text string
	err := json.Unmarshal(value, &text)
	return cellText(text), err
}

// cellText returns a text for a cell of a spreadsheet, which must not take it for a formula.
func cellText(s string) string {
	if s != "" && strings.ContainsRune("=+-@\t\r", rune(s[0])) {
		return "'" + s
	}
	return s
}

// attach has a browser save a list in a file that is named after the operation.
func attach(h http.Header, row *route, format string) {
	h.Set("Content-Disposition", mime.FormatMediaType("attachment", map[string]string{"filename": row.ID + "." + format}))
}

// exampleCSV returns the example of a list as CSV.
func (row *route) exampleCSV(list json.RawMessage) (json.RawMessage, error) {
	var entries []json.RawMessage
	if err := json.Unmarshal(list, &entries); err != nil {
		return nil, err
	}
	var text strings.Builder
	t := csvTable{columns: row.columns, out: csv.NewWriter(&text)}
	err := t.head()
	for _, entry := range entries {
		err = errors.Join(err, t.add(entry))
	}
	return jsonText(text.String()), err
}

// jsonText returns a text as JSON.
func jsonText(text string) json.RawMessage {
	b, _ := json.Marshal(text) // a string can be
	return b
}

// documentFormat adds the parameter and the media type of a list to the document.
func documentFormat(row *route, parameters []docParameter) []docParameter {
	if row.columns == nil {
		return parameters
	}
	return append(parameters, docParameter{Name: formatParameter, In: "query", Schema: &schema{Type: "string", Enum: []any{formatJSON, formatCSV}},
		Description: "Has a browser save the list as JSON or CSV. A column of CSV is a member, or as in status.connected one of an object in it; " +
			"a text that a spreadsheet would take for a formula begins with an apostrophe. Without it, the list is JSON that is shown."})
}

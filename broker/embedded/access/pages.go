package access

import (
	"database/sql"
	"fmt"
	"iter"
	"slices"
	"strings"
)

// pageRows is how many rows a page has.
const pageRows = 1024

// listing is a table that is read page by page, in the order of its primary key. SQLite joins the rows of a
// page to one text: to ask the driver for each column of each row takes twice the processor time.
type listing struct {
	table string
	key   []string // the columns of the primary key, which are names: they contain no control characters
	rest  string   // an SQL expression of the other columns, with a zero byte before each of them and at the end
	width int      // how many columns a row has
}

// query returns the query of a page, whose keys compare to a given one.
func (p listing) query(comparison string) string {
	columns, marks := strings.Join(p.key, ", "), strings.Repeat("?, ", len(p.key)-1)+"?"
	return fmt.Sprintf(`SELECT CAST(group_concat(line, '') AS BLOB) FROM (SELECT %s || %s AS line FROM %s WHERE (%s) %s (%s) ORDER BY %s LIMIT %d)`,
		strings.Join(p.key, " || x'00' || "), p.rest, p.table, columns, comparison, marks, columns, pageRows)
}

// rows yields the columns of each row. The slice is valid until the next one.
func (p listing) rows(l *loader) iter.Seq[[]string] {
	return func(yield func([]string) bool) {
		if l.err != nil {
			return
		}
		first, err := l.tx.PrepareContext(l.ctx, p.query(">="))
		if err != nil {
			l.err = err
			return
		}
		defer first.Close()
		next, err := l.tx.PrepareContext(l.ctx, p.query(">"))
		if err != nil {
			l.err = err
			return
		}
		defer next.Close()
		row, last := make([]string, p.width), make([]string, len(p.key))
		for statement := first; ; statement = next {
			page, err := l.page(statement, last)
			if l.err = err; err != nil || page == "" {
				return
			}
			for page != "" {
				for i := range row {
					row[i], page, _ = strings.Cut(page, "\x00")
				}
				if key := row[:len(last)]; slices.Compare(key, last) < 0 {
					l.err = fmt.Errorf("the rows of %s are not in order: after %q comes %q", p.table, last, key)
					return
				}
				copy(last, row)
				if !yield(row) {
					return
				}
			}
		}
	}
}

// page returns the rows after a key, empty for none.
func (l *loader) page(statement *sql.Stmt, key []string) (string, error) {
	args := make([]any, len(key))
	for i := range key {
		args[i] = key[i]
	}
	var page sql.RawBytes
	rows, err := statement.QueryContext(l.ctx, args...)
	if err != nil {
		return "", err
	}
	defer rows.Close()
	for rows.Next() {
		if err := rows.Scan(&page); err != nil {
			return "", err
		}
	}
	return string(page), rows.Err()
}

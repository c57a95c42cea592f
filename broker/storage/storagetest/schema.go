package storagetest

import (
	"database/sql"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"signalbox/broker/storage"
)

// Schema compares the schema of a layout, which is in the file schema.sql of the package
// that is tested, with what its migrations make of an empty file. It writes the file first
// if update is set; the layout has the new text only in the next run.
func Schema(t *testing.T, l storage.Layout, update bool) {
	t.Helper()
	one := l
	one.Schema = ""
	migrated := describe(t, one)
	if update {
		must(t, os.WriteFile("schema.sql", []byte(migrated), 0o644))
		return
	}
	if diff := cmp.Diff(l.Schema, migrated); diff != "" {
		t.Errorf("schema.sql (-) is not what the migrations make (+); run with -update and read the difference:\n%s", diff)
	}
	if diff := cmp.Diff(migrated, describe(t, l)); diff != "" {
		t.Errorf("a file created from schema.sql (+) is not what the migrations make (-):\n%s", diff)
	}
}

// describe creates a file and returns it as SQL, without the times at which migrations were applied. The order is
// that of the file: of two indexes that are as good for a query, SQLite chooses by it.
func describe(t *testing.T, l storage.Layout) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "file.db")
	f, err := storage.Open(t.Context(), path, l, slog.New(slog.DiscardHandler))
	must(t, err)
	db := f.Readers()
	defer func() { must(t, db.Close(), f.Close()) }()
	var b strings.Builder
	b.WriteString("-- What the migrations make of an empty file. Written by go test -update.\n\n")
	if id := column(t, db, `PRAGMA application_id`)[0]; id != "0" {
		fmt.Fprintf(&b, "PRAGMA application_id = %s;\n\n", id)
	}
	for _, statement := range column(t, db, `
		SELECT sql FROM sqlite_schema
		WHERE sql IS NOT NULL AND name NOT LIKE 'sqlite%'
		ORDER BY rowid`) {
		b.WriteString(statement + ";\n\n")
	}
	for _, table := range column(t, db, `
		SELECT name FROM sqlite_schema
		WHERE type = 'table' AND name NOT LIKE 'sqlite%' ORDER BY name`) {
		columns := column(t, db, `SELECT name FROM pragma_table_info('`+table+`') WHERE name <> 'tstamp' ORDER BY cid`)
		for _, values := range column(t, db, `SELECT quote("`+strings.Join(columns, `") || ', ' || quote("`)+`") FROM "`+table+`" ORDER BY 1`) {
			fmt.Fprintf(&b, "INSERT INTO %s (%s) VALUES (%s);\n\n", table, strings.Join(columns, ", "), values)
		}
	}
	return strings.TrimSuffix(b.String(), "\n")
}

// column returns the first column of the rows of a query.
func column(t *testing.T, db *sql.DB, query string) (all []string) {
	t.Helper()
	rows, err := db.QueryContext(t.Context(), query)
	must(t, err)
	defer rows.Close()
	for rows.Next() {
		var s string
		must(t, rows.Scan(&s))
		all = append(all, s)
	}
	must(t, rows.Err())
	return all
}

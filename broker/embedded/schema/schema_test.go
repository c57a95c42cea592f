package schema

import (
	"database/sql"
	"flag"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/google/go-cmp/cmp"

	"signalbox/broker/storage"
	"signalbox/scripts/suite"
)

var update = flag.Bool("update", false, "write schema.sql anew")

func TestMain(m *testing.M) { suite.Main(m) }

// must fails the test at the first error.
func must(t testing.TB, errs ...error) {
	t.Helper()
	for _, err := range errs {
		if err != nil {
			t.Fatal(err)
		}
	}
}

// open opens broker.db in a directory, for reading, and closes it at the end of the test.
func open(t *testing.T, dir string) *sql.DB {
	t.Helper()
	f, err := Open(t.Context(), filepath.Join(dir, "broker.db"), slog.New(slog.DiscardHandler))
	must(t, err)
	db := f.Readers()
	t.Cleanup(func() { must(t, db.Close(), f.Close()) })
	return db
}

// TestSchema compares the result of the migrations with schema.sql.
func TestSchema(t *testing.T) {
	t.Parallel()
	got := describe(t, open(t, t.TempDir()))
	if *update {
		must(t, os.WriteFile("schema.sql", []byte(got), 0o644))
	}
	want, err := os.ReadFile("schema.sql")
	must(t, err)
	if diff := cmp.Diff(string(want), got); diff != "" {
		t.Errorf("schema.sql (-) is not what the migrations make (+); run with -update and read the difference:\n%s", diff)
	}
}

func describe(t *testing.T, db *sql.DB) string {
	t.Helper()
	rows, err := db.QueryContext(t.Context(), `
		SELECT sql FROM sqlite_schema
		WHERE sql IS NOT NULL AND name NOT LIKE 'goose%' AND name NOT LIKE 'sqlite%'
		ORDER BY type DESC, name`)
	must(t, err)
	defer rows.Close()
	var b strings.Builder
	for rows.Next() {
		var stmt string
		must(t, rows.Scan(&stmt))
		b.WriteString(stmt + ";\n\n")
	}
	must(t, rows.Err())
	return b.String()
}

// TestFirstRelease opens a file of the first release, whose content must be kept.
func TestFirstRelease(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	path := filepath.Join(dir, "broker.db")
	first, err := fs.ReadFile(layout().Migrations, "0001_access.sql")
	must(t, err)
	old := storage.Layout{Name: Name, Migrations: fstest.MapFS{"0001_access.sql": {Data: first}}}
	f, err := storage.Open(t.Context(), path, old, slog.New(slog.DiscardHandler))
	must(t, err)
	w := f.Writer(storage.Full)
	_, err = w.ExecContext(t.Context(), `INSERT INTO access_roles (rolename, allow_wildcard_subs, acls) VALUES ('kept', 1, '[]')`)
	must(t, err, w.Close(), f.Close(), Check(t.Context(), path))
	var n int
	must(t, open(t, dir).QueryRowContext(t.Context(), `SELECT count(*) FROM access_roles WHERE rolename = 'kept'`).Scan(&n))
	if n != 1 {
		t.Error("what was stored is gone")
	}
}

package schema

import (
	"database/sql"
	"flag"
	"io/fs"
	"log/slog"
	"path/filepath"
	"testing"
	"testing/fstest"

	"signalbox/broker/storage"
	"signalbox/broker/storage/storagetest"
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
	storagetest.Schema(t, layout(), *update)
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

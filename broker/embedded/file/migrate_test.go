package file

import (
	"errors"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"testing"
	"testing/fstest"
)

// firstRelease makes a file as the first release left it: with its schema, a
// role, and without a way to shrink.
func firstRelease(t *testing.T) (path string, first []byte) {
	t.Helper()
	path = filepath.Join(t.TempDir(), "broker.db")
	first, err := fs.ReadFile(migrations(), "0001_access.sql")
	must(t, err)
	db := openPool(path, 1, "_pragma=journal_mode(WAL)")
	must(t, migrate(t.Context(), db, path, fstest.MapFS{"0001_access.sql": {Data: first}}, slog.New(slog.DiscardHandler)))
	must(t, closed(db.ExecContext(t.Context(), `INSERT INTO access_roles (rolename, allow_wildcard_subs, acls) VALUES ('kept', 1, '[]')`)))
	must(t, db.Close())
	return path, first
}

// TestSnapshotBeforeMigration brings a file with contents to a later schema.
func TestSnapshotBeforeMigration(t *testing.T) {
	t.Parallel()
	path, first := firstRelease(t)
	broken := fstest.MapFS{
		"0001_access.sql": {Data: first},
		"0002_more.sql":   {Data: []byte("-- +goose Up\nCREATE TABLE more (x INTEGER) STRICT;\nCREATE TABLE more (x INTEGER) STRICT;\n")},
	}
	whole := fstest.MapFS{
		"0001_access.sql": {Data: first},
		"0002_more.sql":   {Data: []byte("-- +goose Up\nCREATE TABLE more (x INTEGER) STRICT;\n")},
	}
	db := closing(t, openPool(path, 1, forWriter))
	if err := migrate(t.Context(), db, path, broken, slog.New(slog.DiscardHandler)); err == nil {
		t.Fatal("a migration that fails is no error")
	}
	if v, err := version(t.Context(), db); v != 1 || err != nil {
		t.Fatalf("after the failure the schema is %d (%v), want 1", v, err)
	}
	must(t, migrate(t.Context(), db, path, whole, slog.New(slog.DiscardHandler)))
	if v, err := version(t.Context(), db); v != 2 || err != nil {
		t.Fatalf("the schema is %d (%v), want 2", v, err)
	}
	old := closing(t, openPool(path+".before-v2", 1, forReader))
	if n := one[int](t, old, `SELECT count(*) FROM access_roles WHERE rolename = 'kept'`); n != 1 {
		t.Error("the copy lacks what was stored")
	}
	if _, err := os.Stat(path + ".before-v2.partial"); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("a partial copy stayed: %v", err)
	}
}

// TestFirstRelease opens a file of the first release, which must keep what it
// holds and can shrink from then on.
func TestFirstRelease(t *testing.T) {
	t.Parallel()
	path, _ := firstRelease(t)
	f := open(t, path)
	defer f.Close()
	if n := one[int](t, f.own, `SELECT count(*) FROM access_roles WHERE rolename = 'kept'`); n != 1 {
		t.Error("what was stored is gone")
	}
	if mode := one[int](t, f.own, `PRAGMA auto_vacuum`); mode != 2 {
		t.Errorf("auto_vacuum is %d, want 2", mode)
	}
	if verdict := one[string](t, f.own, `PRAGMA integrity_check`); verdict != "ok" {
		t.Errorf("the file is damaged: %s", verdict)
	}
}

package storage

import (
	"errors"
	"io/fs"
	"log/slog"
	"maps"
	"os"
	"path/filepath"
	"testing"
	"testing/fstest"
)

// fileWithoutVacuum creates a file as early releases did: with a schema, a
// note, and without incremental vacuum.
func fileWithoutVacuum(t *testing.T) (path string) {
	t.Helper()
	path = filepath.Join(t.TempDir(), "notes.db")
	db := OpenPool(path, 1, "_pragma=journal_mode(WAL)")
	must(t, migrate(t.Context(), db, path, notes, slog.New(slog.DiscardHandler)))
	must(t, resultError(db.ExecContext(t.Context(), `INSERT INTO note (body) VALUES ('kept')`)))
	must(t, db.Close())
	return path
}

// withSecond returns the migrations of the tests and a second one.
func withSecond(second string) fs.FS {
	steps := maps.Clone(notes.Migrations.(fstest.MapFS))
	steps["0002_more.sql"] = &fstest.MapFile{Data: []byte("-- +goose Up\n" + second)}
	return steps
}

// TestSnapshotBeforeMigration migrates a file with contents.
func TestSnapshotBeforeMigration(t *testing.T) {
	t.Parallel()
	path := fileWithoutVacuum(t)
	broken := withSecond("CREATE TABLE more (x INTEGER) STRICT;\nCREATE TABLE more (x INTEGER) STRICT;\n")
	whole := withSecond("CREATE TABLE more (x INTEGER) STRICT;\n")
	db := closeAtEnd(t, OpenPool(path, 1, forWriter))
	if err := migrate(t.Context(), db, path, Layout{Migrations: broken}, slog.New(slog.DiscardHandler)); err == nil {
		t.Fatal("a failing migration has no error")
	}
	if v, err := Version(t.Context(), db, notes); v != 1 || err != nil {
		t.Fatalf("after the failure the schema is %d (%v), want 1", v, err)
	}
	must(t, migrate(t.Context(), db, path, Layout{Migrations: whole}, slog.New(slog.DiscardHandler)))
	if v, err := Version(t.Context(), db, notes); v != 2 || err != nil {
		t.Fatalf("the schema is %d (%v), want 2", v, err)
	}
	old := closeAtEnd(t, OpenPool(path+".before-v2", 1, forReader))
	if n := one[int](t, old, `SELECT count(*) FROM note WHERE body = 'kept'`); n != 1 {
		t.Error("the copy lacks what was stored")
	}
	if _, err := os.Stat(path + ".before-v2.partial"); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("a partial copy stayed: %v", err)
	}
}

// TestFileWithoutVacuum migrates a file without incremental vacuum: it must
// keep its contents and can shrink from then on.
func TestFileWithoutVacuum(t *testing.T) {
	t.Parallel()
	path := fileWithoutVacuum(t)
	later := Layout{Name: notes.Name, Migrations: withSecond("CREATE TABLE more (x INTEGER) STRICT;\n")}
	f, err := Open(t.Context(), path, later, slog.New(slog.DiscardHandler))
	must(t, err)
	defer f.Close()
	if n := one[int](t, f.db, `SELECT count(*) FROM note WHERE body = 'kept'`); n != 1 {
		t.Error("what was stored was deleted")
	}
	if mode := one[int](t, f.db, `PRAGMA auto_vacuum`); mode != 2 {
		t.Errorf("auto_vacuum is %d, want 2", mode)
	}
	if verdict := one[string](t, f.db, `PRAGMA integrity_check`); verdict != "ok" {
		t.Errorf("the file is damaged: %s", verdict)
	}
}

package storage

import (
	"context"
	"database/sql"
	"log/slog"
	"os"
	"path/filepath"
	"testing"
	"testing/fstest"
)

// TestReplace replaces a content while a reader is in a transaction, which sees the former one to
// its end, and keeps a copy of it.
func TestReplace(t *testing.T) {
	t.Parallel()
	ctx, dir := t.Context(), t.TempDir()
	l := Layout{Name: "the test's database", Migrations: fstest.MapFS{"0001_init.sql": {Data: []byte("-- +goose Up\nCREATE TABLE t (a TEXT NOT NULL) STRICT")}}}
	open := func(name, value string) (path string, w *sql.DB) {
		path = filepath.Join(dir, name)
		w, err := OpenWriter(ctx, path, l, forAll+forWriter+synchronous[Full], slog.New(slog.DiscardHandler))
		if err == nil {
			_, err = w.ExecContext(ctx, "INSERT INTO t (a) VALUES (?)", value)
		}
		if err != nil {
			t.Fatal(err)
		}
		return path, w
	}
	content := func(q interface {
		QueryRowContext(ctx context.Context, query string, args ...any) *sql.Row
	}) (a string) {
		t.Helper()
		if err := q.QueryRowContext(ctx, "SELECT a FROM t").Scan(&a); err != nil {
			t.Error(err)
		}
		return a
	}
	path, target := open("target.db", "former")
	defer target.Close()
	other, source := open("source.db", "new")
	if err := source.Close(); err != nil {
		t.Fatal(err)
	}
	readers := OpenPool(path, 2, forReader)
	defer readers.Close()
	tx, err := readers.BeginTx(ctx, &sql.TxOptions{ReadOnly: true})
	if err != nil {
		t.Fatal(err)
	}
	defer tx.Rollback() //nolint:errcheck // it only reads
	if got := content(tx); got != "former" {
		t.Errorf("got %q before", got)
	}
	conn, err := target.Conn(ctx)
	if err != nil {
		t.Fatal(err)
	}
	kept := filepath.Join(dir, "kept.db")
	if err := Keep(ctx, conn, kept); err != nil {
		t.Fatal(err)
	}
	over, cancel := context.WithCancel(ctx)
	cancel()
	if err := Replace(over, conn, path, other); err == nil {
		t.Error("a replacement ignored the end of its context")
	}
	if got := content(readers); got != "former" {
		t.Errorf("got %q after a replacement that failed", got)
	}
	if err := Replace(ctx, conn, path, filepath.Join(dir, "missing.db")); err == nil {
		t.Error("a missing file was restored")
	}
	if err := Replace(ctx, conn, path, other); err != nil {
		t.Fatal(err)
	}
	for name, q := range map[string]interface {
		QueryRowContext(ctx context.Context, query string, args ...any) *sql.Row
	}{"the connection": conn, "a new reader": readers} {
		if got := content(q); got != "new" {
			t.Errorf("%s read %q", name, got)
		}
	}
	if got := content(tx); got != "former" {
		t.Errorf("got %q in a transaction that began before", got)
	}
	if err := conn.Close(); err != nil {
		t.Error(err)
	}
	err = View(ctx, kept, func(db *sql.DB) error {
		if got := content(db); got != "former" {
			t.Errorf("got %q in the copy", got)
		}
		return nil
	})
	if err != nil {
		t.Error(err)
	}
	if info, err := os.Stat(kept); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("got %v, %v for the copy", info, err)
	}
}

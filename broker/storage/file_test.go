package storage

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"testing/fstest"
	"testing/synctest"

	"signalbox/scripts/suite"
)

// notes is the layout of the tests.
var notes = Layout{Name: "the test's database", Migrations: fstest.MapFS{
	"0001_notes.sql": {Data: []byte("-- +goose Up\nCREATE TABLE note (id INTEGER PRIMARY KEY, body ANY) STRICT;\n")},
}}

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

// open opens a file that the test closes.
func open(t testing.TB, path string) *File {
	t.Helper()
	f, err := Open(t.Context(), path, notes, slog.New(slog.DiscardHandler))
	must(t, err)
	return f
}

// fresh opens a new file and closes it at the end of the test.
func fresh(t testing.TB) *File {
	t.Helper()
	f := open(t, filepath.Join(t.TempDir(), "notes.db"))
	t.Cleanup(func() { must(t, f.Close()) })
	return f
}

// closeAtEnd closes a pool at the end of the test.
func closeAtEnd(t testing.TB, db *sql.DB) *sql.DB {
	t.Helper()
	t.Cleanup(func() { must(t, db.Close()) })
	return db
}

// execute runs statements on a file that is not open otherwise.
func execute(t testing.TB, path string, stmts ...string) {
	t.Helper()
	db := OpenPool(path, 1, forWriter)
	for _, stmt := range stmts {
		_, err := db.ExecContext(t.Context(), stmt)
		must(t, err)
	}
	must(t, db.Close())
}

func one[T any](t testing.TB, db *sql.DB, q string) (v T) {
	t.Helper()
	must(t, db.QueryRowContext(t.Context(), q).Scan(&v))
	return v
}

func TestPragmas(t *testing.T) {
	t.Parallel()
	f := fresh(t)
	for d, synchronous := range map[Durability]string{Full: "2", Process: "1"} {
		w := closeAtEnd(t, f.Writer(d))
		for pragma, want := range map[string]string{
			"journal_mode": "wal", "synchronous": synchronous, "foreign_keys": "1", "auto_vacuum": "2",
		} {
			if got := one[string](t, w, "PRAGMA "+pragma); got != want {
				t.Errorf("%s of a writer for %s is %s, want %s", pragma, d, got, want)
			}
		}
	}
	if _, err := closeAtEnd(t, f.Readers()).ExecContext(t.Context(), `DELETE FROM note`); err == nil {
		t.Error("a reader may write")
	}
}

// TestLock has several writers that write all the time. None must find the file
// busy, as none waits for another within SQLite.
func TestLock(t *testing.T) {
	t.Parallel()
	f := fresh(t)
	const writers, each = 4, 200
	var wg sync.WaitGroup
	for range writers {
		w := closeAtEnd(t, f.Writer(Process))
		must(t, resultError(w.ExecContext(t.Context(), `PRAGMA busy_timeout = 0`)))
		wg.Go(func() {
			for range each {
				if err := f.Lock(t.Context()); err != nil {
					t.Error(err)
					return
				}
				err := resultError(w.ExecContext(t.Context(), `INSERT INTO note (body) VALUES (1)`))
				f.Unlock()
				if err != nil {
					t.Error(err)
				}
			}
		})
	}
	wg.Wait()
	if n := one[int](t, f.db, `SELECT count(*) FROM note`); n != writers*each {
		t.Errorf("found %d rows, want %d", n, writers*each)
	}
}

func resultError(_ sql.Result, err error) error { return err }

func TestLockHonoursItsContext(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f := &File{write: make(chan struct{}, 1)}
		must(t, f.Lock(t.Context()))
		cause := errors.New("no longer")
		ctx, cancel := context.WithCancelCause(t.Context())
		got := make(chan error, 1)
		go func() { got <- f.Lock(ctx) }()
		synctest.Wait()
		cancel(cause)
		if err := <-got; !errors.Is(err, cause) {
			t.Errorf("got %v, want %v", err, cause)
		}
		f.Unlock()
		must(t, f.Lock(t.Context()))
	})
}

func TestFilesAreForTheOwnerOnly(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	f := open(t, filepath.Join(dir, "notes.db"))
	defer f.Close()
	must(t, resultError(f.db.ExecContext(t.Context(), `INSERT INTO note (id) VALUES (1)`)))
	files, err := os.ReadDir(dir)
	must(t, err)
	if len(files) < 2 {
		t.Errorf("found %v, want the database and its log", files)
	}
	for _, entry := range files {
		info, err := entry.Info()
		must(t, err)
		if info.Mode().Perm() != 0o600 {
			t.Errorf("%s has mode %v, want 0600", entry.Name(), info.Mode().Perm())
		}
	}
}

// TestClose checks that one file with everything remains.
func TestClose(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	path := filepath.Join(dir, "notes.db")
	f := open(t, path)
	must(t, resultError(f.db.ExecContext(t.Context(), `INSERT INTO note (id) VALUES (1)`)))
	must(t, f.Close())
	files, err := os.ReadDir(dir)
	must(t, err)
	if len(files) != 1 {
		t.Errorf("found %v, want the database alone", files)
	}
	again := open(t, path)
	defer again.Close()
	if n := one[int](t, again.db, `SELECT count(*) FROM note`); n != 1 {
		t.Errorf("found %d rows, want 1", n)
	}
}

func TestPathMayHoldAnyCharacter(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "a b?c#d%20e&f=g;ü")
	must(t, os.Mkdir(dir, 0o700))
	path := filepath.Join(dir, "notes.db")
	f := open(t, path)
	if f.Path() != path {
		t.Errorf("got path %q, want %q", f.Path(), path)
	}
	must(t, f.Close())
	if info, err := os.Stat(path); err != nil || info.Size() == 0 {
		t.Fatalf("the database is not where it was asked for: %v, %v", info, err)
	}
}

func TestOpenRefuses(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		prepare func(t *testing.T, path string)
		want    string
	}{
		"a newer file": {func(t *testing.T, path string) {
			execute(t, path, `UPDATE goose_db_version SET version_id = 77 WHERE version_id = 1`)
		}, "newer release"},
		"no database": {func(t *testing.T, path string) {
			must(t, os.WriteFile(path, []byte(strings.Repeat("text ", 500)), 0o600))
		}, "is not an SQLite database"},
		"another program's database": {func(t *testing.T, path string) {
			must(t, os.Remove(path))
			execute(t, path, `CREATE TABLE cookies (id TEXT)`)
		}, "of another program"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			path := filepath.Join(t.TempDir(), "notes.db")
			must(t, open(t, path).Close())
			tc.prepare(t, path)
			before, err := os.ReadFile(path)
			must(t, err)
			_, err = Open(t.Context(), path, notes, slog.New(slog.DiscardHandler))
			if err == nil || !strings.Contains(err.Error(), tc.want) || strings.Contains(err.Error(), "\n") {
				t.Errorf("got %v, want one sentence with %q", err, tc.want)
			}
			if checked := Check(t.Context(), path, notes); fmt.Sprint(checked) != fmt.Sprint(err) {
				t.Errorf("Check says %v, Open %v", checked, err)
			}
			after, err := os.ReadFile(path)
			must(t, err)
			if string(before) != string(after) {
				t.Error("the file was changed")
			}
		})
	}
	t.Run("no folder", func(t *testing.T) {
		t.Parallel()
		_, err := Open(t.Context(), filepath.Join(t.TempDir(), "none", "notes.db"), notes, slog.New(slog.DiscardHandler))
		if !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("got %v", err)
		}
	})
}

func TestCheckTakesWhatOpenTakes(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	path := filepath.Join(dir, "notes.db")
	must(t, Check(t.Context(), path, notes))
	if files, err := os.ReadDir(dir); err != nil || len(files) > 0 {
		t.Errorf("checking left %v (%v)", files, err)
	}
	must(t, open(t, path).Close())
	must(t, Check(t.Context(), path, notes))
}

// TestAdvice provokes errors and compares the advice, and whether the error is
// a fault of the program.
func TestAdvice(t *testing.T) {
	t.Parallel()
	f := fresh(t)
	w := closeAtEnd(t, f.Writer(Full))
	full := []string{`PRAGMA max_page_count = 1`, `INSERT INTO note (body) VALUES (zeroblob(1000000))`}
	twice := []string{`INSERT INTO note (id) VALUES (1)`, `INSERT INTO note (id) VALUES (1)`}
	for _, tc := range []struct {
		name  string
		db    *sql.DB
		stmts []string
		want  string
		fault bool
	}{
		{"a reader", closeAtEnd(t, f.Readers()), []string{`DELETE FROM note`}, "permissions", false},
		{"a row twice", w, twice, "fault of this program", true},
		{"a full disk", w, full, "that holds the file is full: free some space", false},
		{"no table", w, []string{`DELETE FROM none`}, "", false},
	} {
		var err error
		for _, stmt := range tc.stmts {
			_, err = tc.db.ExecContext(t.Context(), stmt)
		}
		if got := Advice(err, "the file"); err == nil || !strings.Contains(got, tc.want) || (got == "") != (tc.want == "") || Fault(err) != tc.fault || Unflushed(err) {
			t.Errorf("%s: got %q for %v, fault %t", tc.name, got, err, Fault(err))
		}
	}
	if got := Advice(errors.New("no error of SQLite"), "the file"); got != "" {
		t.Errorf("got %q", got)
	}
}

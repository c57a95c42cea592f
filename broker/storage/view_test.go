package storage

import (
	"os"
	"path/filepath"
	"testing"
)

// fileWithHotJournal returns a database that a process wrote to without WAL
// when it was killed: the rollback journal exists beside the file.
func fileWithHotJournal(t *testing.T) (path string) {
	t.Helper()
	source := filepath.Join(t.TempDir(), "notes.db")
	must(t, open(t, source).Close())
	db := closeAtEnd(t, OpenPool(source, 1, "_pragma=journal_mode(DELETE)&_pragma=cache_size(1)"))
	must(t, resultError(db.ExecContext(t.Context(), `INSERT INTO note (body) VALUES ('kept')`)))
	tx, err := db.BeginTx(t.Context(), nil)
	must(t, err)
	defer tx.Rollback() //nolint:errcheck // only its journal is of use
	for range 100 {     // more than the cache holds, so that some of it is written to the file
		must(t, resultError(tx.ExecContext(t.Context(), `INSERT INTO note (body) VALUES (hex(randomblob(4000)))`)))
	}
	path = filepath.Join(t.TempDir(), "notes.db")
	for _, suffix := range []string{"", "-journal"} {
		b, err := os.ReadFile(source + suffix)
		must(t, err)
		must(t, os.WriteFile(path+suffix, b, 0o600))
	}
	return path
}

// TestKilledWithoutWAL reads a database with a hot journal in each way that
// precedes opening it.
func TestKilledWithoutWAL(t *testing.T) {
	t.Parallel()
	for name, look := range map[string]func(path string) error{
		"Check":      func(path string) error { return Check(t.Context(), path, notes) },
		"Inspect":    func(path string) error { _, err := Inspect(t.Context(), path); return err },
		"QuickCheck": func(path string) error { return QuickCheck(t.Context(), path) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			path := fileWithHotJournal(t)
			must(t, look(path))
			f := open(t, path)
			defer f.Close()
			if n := one[int](t, f.db, `SELECT count(*) FROM note`); n != 1 {
				t.Errorf("there are %d notes, want the one that was stored", n)
			}
		})
	}
}

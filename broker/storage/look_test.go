package storage

import (
	"os"
	"path/filepath"
	"testing"
)

// cutOff returns a database of which a process was killed while it wrote to it without
// WAL: beside the file lies the journal by which that is rolled back.
func cutOff(t *testing.T) (path string) {
	t.Helper()
	source := filepath.Join(t.TempDir(), "notes.db")
	must(t, open(t, source).Close())
	db := closing(t, openPool(source, 1, "_pragma=journal_mode(DELETE)&_pragma=cache_size(1)"))
	must(t, closed(db.ExecContext(t.Context(), `INSERT INTO note (body) VALUES ('kept')`)))
	tx, err := db.BeginTx(t.Context(), nil)
	must(t, err)
	defer tx.Rollback() //nolint:errcheck // only its journal is of use
	for range 100 {     // more than the cache holds, so that some of it gets into the file
		must(t, closed(tx.ExecContext(t.Context(), `INSERT INTO note (body) VALUES (hex(randomblob(4000)))`)))
	}
	path = filepath.Join(t.TempDir(), "notes.db")
	for _, suffix := range []string{"", "-journal"} {
		b, err := os.ReadFile(source + suffix)
		must(t, err)
		must(t, os.WriteFile(path+suffix, b, 0o600))
	}
	return path
}

// TestKilledWithoutWAL looks into a database whose last change has to be rolled back, in
// each way in which that is done before it is opened.
func TestKilledWithoutWAL(t *testing.T) {
	t.Parallel()
	for name, look := range map[string]func(path string) error{
		"Check":      func(path string) error { return Check(t.Context(), path, notes) },
		"Inspect":    func(path string) error { _, err := Inspect(t.Context(), path); return err },
		"QuickCheck": func(path string) error { return QuickCheck(t.Context(), path) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			path := cutOff(t)
			must(t, look(path))
			f := open(t, path)
			defer f.Close()
			if n := one[int](t, f.own, `SELECT count(*) FROM note`); n != 1 {
				t.Errorf("there are %d notes, want the one that was stored", n)
			}
		})
	}
}

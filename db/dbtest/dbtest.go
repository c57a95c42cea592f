// Package dbtest opens real databases for tests. It imports db and nothing else of
// signalbox.
package dbtest

import (
	"context"
	"log/slog"
	"path/filepath"
	"testing"

	"signalbox/db"
)

// New opens a migrated, empty database in a directory of the test's own, and
// closes it when the test ends.
func New(t testing.TB) *db.DB {
	t.Helper()
	return Open(t, filepath.Join(t.TempDir(), "signalbox.db"))
}

// Open opens the database at path and closes it when the test ends.
func Open(t testing.TB, path string) *db.DB {
	t.Helper()
	d, err := db.Open(t.Context(), path, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := d.Close(context.WithoutCancel(t.Context())); err != nil {
			t.Error(err)
		}
	})
	return d
}

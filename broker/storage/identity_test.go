package storage

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestIdentify(t *testing.T) {
	t.Parallel()
	f := fresh(t) // which stays open
	for _, want := range []Identity{{"a", "notes.db"}, {"b", "other.db"}} {
		must(t, Identify(t.Context(), f.Path(), want))
		got, err := Inspect(t.Context(), f.Path())
		if err != nil || got != (Content{Identity: want}) {
			t.Errorf("got %+v, %v, want %+v", got, err, want)
		}
	}
	must(t, QuickCheck(t.Context(), f.Path()))
}

func TestInspect(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	none, empty, text := filepath.Join(dir, "none"), filepath.Join(dir, "empty"), filepath.Join(dir, "text")
	must(t, os.WriteFile(empty, nil, 0o600), os.WriteFile(text, []byte(strings.Repeat("text ", 500)), 0o600))
	for _, path := range []string{none, empty} {
		if got, err := Inspect(t.Context(), path); err != nil || !got.Empty {
			t.Errorf("%s: got %+v, %v, want nothing", path, got, err)
		}
	}
	tableless := filepath.Join(dir, "tableless")
	execute(t, tableless, `PRAGMA journal_mode = WAL`, `PRAGMA user_version = 1`)
	if got, err := Inspect(t.Context(), tableless); err != nil || !got.Empty {
		t.Errorf("without tables: got %+v, %v", got, err)
	}
	if _, err := Inspect(t.Context(), text); !errors.Is(err, ErrForeign) || !strings.Contains(err.Error(), text) {
		t.Errorf("got %v, want %v that names the file", err, ErrForeign)
	}
	if _, err := os.Stat(none); err == nil {
		t.Error("a file was created")
	}
}

func TestQuickCheckFindsDamage(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "notes.db")
	f := open(t, path)
	page := one[int64](t, f.db, `SELECT rootpage FROM sqlite_schema WHERE name = 'note'`)
	must(t, f.Close())
	w, err := os.OpenFile(path, os.O_WRONLY, 0)
	must(t, err)
	must(t, countError(w.WriteAt([]byte(strings.Repeat("noise---", 256)), (page-1)*4096)), w.Close())
	if err := QuickCheck(t.Context(), path); !errors.Is(err, ErrDamaged) || !strings.Contains(err.Error(), path+" is damaged") || strings.Contains(err.Error(), "\n") {
		t.Errorf("got %v, want %v in one sentence", err, ErrDamaged)
	}
}

func countError(_ int, err error) error { return err }

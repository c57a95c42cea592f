package db

import (
	"bytes"
	"context"
	"errors"
	"flag"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/fstest"

	"signalbox/broker/storage"
	"signalbox/broker/storage/storagetest"
)

var update = flag.Bool("update", false, "write schema.sql anew")

// TestSchemaIsGolden compares schema.sql with the migrations: who changes them sees the
// difference in review.
func TestSchemaIsGolden(t *testing.T) {
	t.Parallel()
	storagetest.Schema(t, newest(), *update)
}

// schema returns the statements that a file's tables were created with.
func schema(t *testing.T, q queryer) string {
	t.Helper()
	const query = `
		SELECT sql FROM sqlite_schema
		WHERE sql IS NOT NULL AND name NOT LIKE 'goose%' AND name NOT LIKE 'sqlite%'
		ORDER BY tbl_name, type DESC, name`
	all, err := collect(t.Context(), q, func(row scanner) (s string, err error) {
		err = row.Scan(&s)
		return s, err
	}, query)
	if err != nil {
		t.Fatal(err)
	}
	return strings.Join(all, ";\n\n")
}

// with returns the released migrations and one more.
func with(t *testing.T, name, body string) fs.FS {
	t.Helper()
	steps := fstest.MapFS{name: {Data: []byte("-- +goose Up\n" + body)}}
	names, err := fs.Glob(released(), "*.sql")
	if err != nil {
		t.Fatal(err)
	}
	for _, n := range names {
		data, err := fs.ReadFile(released(), n)
		if err != nil {
			t.Fatal(err)
		}
		steps[n] = &fstest.MapFile{Data: data}
	}
	return steps
}

// stored opens a database, stores a user in it and closes it.
func stored(t *testing.T, steps fs.FS) (path string) {
	t.Helper()
	path = filepath.Join(t.TempDir(), "signalbox.db")
	d := reopen(t, path, steps)
	if err := d.CreateUser(t.Context(), User{ID: "u", Email: "u@example.org"}); err != nil {
		t.Fatal(err)
	}
	if err := d.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	return path
}

func reopen(t *testing.T, path string, steps fs.FS) *DB {
	t.Helper()
	d, err := open(t.Context(), path, layout(steps), slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := d.closePools(); err != nil {
			t.Error(err)
		}
	})
	return d
}

func files(t *testing.T, path string) (names []string) {
	t.Helper()
	entries, err := os.ReadDir(filepath.Dir(path))
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		names = append(names, e.Name())
	}
	return names
}

func TestMigrationIsPrecededByASnapshot(t *testing.T) {
	t.Parallel()
	path := stored(t, released())
	snapshot := path + ".before-v9000"
	if err := os.WriteFile(snapshot+".partial", []byte("cut off by a crash"), 0o600); err != nil {
		t.Fatal(err)
	}
	d := reopen(t, path, with(t, "9000_more.sql", "DELETE FROM users; CREATE TABLE more (id TEXT) STRICT;"))
	if _, err := d.GetUser(t.Context(), "u"); !errors.Is(err, ErrNotFound) {
		t.Fatalf("got %v: the migration did not run", err)
	}
	info, err := os.Stat(snapshot)
	if err != nil || info.Mode().Perm() != 0o600 {
		t.Fatalf("got %v, mode %v, want a snapshot of mode 600", err, info)
	}
	before := reopen(t, snapshot, released()) // the older program takes it as it is
	if _, err := before.GetUser(t.Context(), "u"); err != nil {
		t.Errorf("the snapshot lacks the user: %v", err)
	}
}

func TestNothingToMigrateLeavesNoSnapshot(t *testing.T) {
	t.Parallel()
	path := stored(t, released())
	if err := reopen(t, path, released()).Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	if got := files(t, path); !slices.Equal(got, []string{"signalbox.db"}) {
		t.Errorf("got files %v, want signalbox.db alone", got)
	}
}

func TestFailedMigrationLeavesTheData(t *testing.T) {
	t.Parallel()
	path := stored(t, released())
	bad := with(t, "9000_bad.sql", "DELETE FROM users; CREATE TABLE more (id TEXT) STRICT; INSERT INTO absent (id) VALUES (1);")
	for range 2 { // also where the first attempt left a snapshot
		if _, err := open(t.Context(), path, layout(bad), slog.New(slog.DiscardHandler)); err == nil {
			t.Fatal("a migration that cannot run succeeded")
		}
	}
	d := reopen(t, path, released())
	if _, err := d.GetUser(t.Context(), "u"); err != nil {
		t.Errorf("the user is gone: %v", err)
	}
	if strings.Contains(schema(t, d.ro), "more") {
		t.Error("half of the migration is there")
	}
	if err := d.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	if got, want := files(t, path), []string{"signalbox.db", "signalbox.db.before-v9000"}; !slices.Equal(got, want) {
		t.Errorf("got files %v, want %v", got, want)
	}
}

func TestNewerFileIsRefusedAndLeftAlone(t *testing.T) {
	t.Parallel()
	path := stored(t, with(t, "9000_more.sql", "CREATE TABLE more (id TEXT) STRICT;"))
	before := content(t, path)
	_, err := Open(t.Context(), path, slog.New(slog.DiscardHandler))
	if !errors.Is(err, ErrNewer) {
		t.Fatalf("got %v, want %v", err, ErrNewer)
	}
	if !bytes.Equal(content(t, path), before) {
		t.Error("the file was changed")
	}
	if got := files(t, path); slices.ContainsFunc(got, func(n string) bool { return strings.Contains(n, "before") }) {
		t.Errorf("got files %v, want no snapshot", got)
	}
}

func content(t *testing.T, path string) []byte {
	t.Helper()
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return data
}

func TestForeignFileIsRefusedAndLeftAlone(t *testing.T) {
	t.Parallel()
	tests := map[string]func(path string) error{
		"no database": func(path string) error { return os.WriteFile(path, []byte("Dear diary, no SQLite here."), 0o600) },
		"another program's database": func(path string) error {
			return script(t.Context(), path, "CREATE TABLE cookies (id TEXT)")
		},
		"another program that uses goose": func(path string) error {
			return script(t.Context(), path, "PRAGMA application_id = 7; CREATE TABLE goose_db_version (version_id, is_applied)")
		},
	}
	for name, write := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			path := filepath.Join(t.TempDir(), "signalbox.db")
			if err := write(path); err != nil {
				t.Fatal(err)
			}
			before := content(t, path)
			if _, err := Open(t.Context(), path, slog.New(slog.DiscardHandler)); !errors.Is(err, ErrForeign) {
				t.Errorf("got %v, want %v", err, ErrForeign)
			}
			if !bytes.Equal(content(t, path), before) {
				t.Error("the file was changed")
			}
		})
	}
}

func script(ctx context.Context, path, statements string) error {
	pool := storage.OpenPool(path, 1, "")
	_, err := pool.ExecContext(ctx, statements)
	return errors.Join(err, pool.Close())
}

// A connection of before there was the switch has it on.
func TestTopicTreeIsOnForOlderConnections(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "signalbox.db")
	writeOlder(t, path, "0001_init.sql", `
		INSERT INTO users VALUES ('u', 'u@example.org', 'u@example.org', '', '', '', '', 1, 1, 0, 0);
		INSERT INTO projects VALUES ('p', '', '', 'u', '', 0, 0);
		INSERT INTO brokers VALUES ('b', 'p', 7, 'self-hosted', 'older', '', 'mqtt://h', '', NULL, 0, 0, 1, 0, 0, '', '', '', '', '', '', NULL, 0, 0)`)
	b, err := reopen(t, path, released()).GetBroker(t.Context(), "p", "b")
	if err != nil || b.Rev != 7 || b.Name != "older" || b.MetricsEnabled || !b.TopicTree {
		t.Errorf("got %+v, %v", b, err)
	}
}

// writeOlder makes a file as a migration of old leaves it, with some rows.
func writeOlder(t *testing.T, path, step, rows string) {
	t.Helper()
	data, err := fs.ReadFile(released(), step)
	if err != nil {
		t.Fatal(err)
	}
	pool, err := storage.OpenWriter(t.Context(), path, layout(fstest.MapFS{step: {Data: data}}), "", slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	defer pool.Close() //nolint:errcheck // reading it will tell
	if _, err := pool.ExecContext(t.Context(), rows); err != nil {
		t.Fatal(err)
	}
}

// The first start was cut off after goose had made its table.
func TestInterruptedFirstMigrationGoesOn(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "signalbox.db")
	broken := fstest.MapFS{"0001_init.sql": {Data: []byte("-- +goose Up\nINSERT INTO absent (id) VALUES (1);")}}
	if _, err := open(t.Context(), path, layout(broken), slog.New(slog.DiscardHandler)); err == nil {
		t.Fatal("a migration that cannot run succeeded")
	}
	d, err := Open(t.Context(), path, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close(t.Context())
	if got, want := files(t, path), []string{"signalbox.db", "signalbox.db-shm", "signalbox.db-wal"}; !slices.Equal(got, want) {
		t.Errorf("got files %v, want %v", got, want)
	}
}

// TestKilledWithoutWAL opens a database of which a process was killed while it wrote to
// it without WAL, as at the very beginning: what it had begun is rolled back.
func TestKilledWithoutWAL(t *testing.T) {
	t.Parallel()
	source := filepath.Join(t.TempDir(), "signalbox.db")
	d, err := open(t.Context(), source, newest(), slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	if err := d.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	pool := storage.OpenPool(source, 1, "_pragma=journal_mode(DELETE)&_pragma=cache_size(1)")
	defer pool.Close()
	if _, err := pool.ExecContext(t.Context(), `
		BEGIN;
		CREATE TABLE begun (x TEXT) STRICT;
		INSERT INTO begun (x) SELECT hex(randomblob(4000)) FROM (WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 100) SELECT i FROM n)`,
	); err != nil {
		t.Fatal(err)
	}
	for name, look := range map[string]func(path string) error{
		"Check":       func(path string) error { return Check(t.Context(), path) },
		"HasEmbedded": func(path string) error { _, err := HasEmbedded(t.Context(), path); return err },
		"Open":        func(string) error { return nil },
	} {
		path := filepath.Join(t.TempDir(), "signalbox.db")
		for _, suffix := range []string{"", "-journal"} {
			b, err := os.ReadFile(source + suffix)
			if err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(path+suffix, b, 0o600); err != nil {
				t.Fatal(err)
			}
		}
		if err := look(path); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		d := reopen(t, path, released())
		if begun, err := exists(t.Context(), d.ro, "SELECT EXISTS (SELECT 1 FROM sqlite_schema WHERE name = 'begun')"); begun || err != nil {
			t.Errorf("%s: what was begun is there: %t, %v", name, begun, err)
		}
	}
}

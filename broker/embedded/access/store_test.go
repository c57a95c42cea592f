package access

import (
	"database/sql"
	"errors"
	"flag"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/google/go-cmp/cmp"

	"signalbox/broker"
)

var update = flag.Bool("update", false, "write schema.sql anew")

// TestSchema compares what the migrations add up to with schema.sql.
func TestSchema(t *testing.T) {
	t.Parallel()
	c := fresh(t)
	got := schema(t, c.store.r)
	if *update {
		must(t, os.WriteFile("schema.sql", []byte(got), 0o644))
	}
	want, err := os.ReadFile("schema.sql")
	must(t, err)
	if diff := cmp.Diff(string(want), got); diff != "" {
		t.Errorf("schema.sql (-) is not what the migrations make (+); run with -update and read the difference:\n%s", diff)
	}
}

func schema(t *testing.T, db *sql.DB) string {
	t.Helper()
	rows, err := db.QueryContext(t.Context(), `
		SELECT sql FROM sqlite_schema
		WHERE sql IS NOT NULL AND name NOT LIKE 'goose%' AND name NOT LIKE 'sqlite%'
		ORDER BY type DESC, name`)
	must(t, err)
	defer rows.Close()
	var b strings.Builder
	for rows.Next() {
		var stmt string
		must(t, rows.Scan(&stmt))
		b.WriteString(stmt + ";\n\n")
	}
	must(t, rows.Err())
	return b.String()
}

func TestPragmas(t *testing.T) {
	t.Parallel()
	c := fresh(t)
	for pragma, want := range map[string]string{"journal_mode": "wal", "synchronous": "2", "foreign_keys": "1"} {
		var got string
		must(t, c.store.w.QueryRowContext(t.Context(), "PRAGMA "+pragma).Scan(&got))
		if got != want {
			t.Errorf("%s of the writer is %s, want %s", pragma, got, want)
		}
	}
	if _, err := c.store.r.ExecContext(t.Context(), `DELETE FROM access_clients`); err == nil {
		t.Error("a reader may write")
	}
}

func TestFilesAreForTheOwnerOnly(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	c := open(t, filepath.Join(dir, "broker.db"))
	must(t, c.CreateRole(t.Context(), role("r")))
	files, err := os.ReadDir(dir)
	must(t, err)
	if len(files) < 2 {
		t.Errorf("found %v, want the database and its log", files)
	}
	for _, f := range files {
		info, err := f.Info()
		must(t, err)
		if info.Mode().Perm() != 0o600 {
			t.Errorf("%s has mode %v, want 0600", f.Name(), info.Mode().Perm())
		}
	}
}

func TestPathMayHoldAnyCharacter(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "a b?c#d%20e&f=g;ü")
	must(t, os.Mkdir(dir, 0o700))
	path := filepath.Join(dir, "broker.db")
	c := open(t, path)
	must(t, c.CreateRole(t.Context(), role("r")))
	shut(t, c)
	if info, err := os.Stat(path); err != nil || info.Size() == 0 {
		t.Fatalf("the database is not where it was asked for: %v, %v", info, err)
	}
}

func TestOpenRefuses(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		prepare func(t *testing.T, path string)
		says    string
	}{
		"a newer file": {func(t *testing.T, path string) {
			execute(t, path, `UPDATE goose_db_version SET version_id = 7 WHERE version_id = 1`)
		}, "newer release"},
		"no database": {func(t *testing.T, path string) {
			must(t, os.WriteFile(path, []byte(strings.Repeat("text ", 500)), 0o600))
		}, "move it away"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			path := filepath.Join(t.TempDir(), "broker.db")
			shut(t, open(t, path))
			tc.prepare(t, path)
			before, err := os.ReadFile(path)
			must(t, err)
			_, err = Open(t.Context(), Options{Path: path})
			if err == nil || !strings.Contains(err.Error(), tc.says) || strings.Contains(err.Error(), "\n") {
				t.Errorf("got %v, want one sentence with %q", err, tc.says)
			}
			if checked := Check(t.Context(), path); fmt.Sprint(checked) != fmt.Sprint(err) {
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
		_, err := Open(t.Context(), Options{Path: filepath.Join(t.TempDir(), "none", "broker.db")})
		if !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("got %v", err)
		}
	})
}

func TestCheckTakesWhatOpenTakes(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	path := filepath.Join(dir, "broker.db")
	must(t, Check(t.Context(), path))
	if files, err := os.ReadDir(dir); err != nil || len(files) > 0 {
		t.Errorf("checking left %v (%v)", files, err)
	}
	shut(t, open(t, path))
	must(t, Check(t.Context(), path))
}

// execute runs a statement on a file that nobody has open.
func execute(t *testing.T, path, stmt string) {
	t.Helper()
	db := openPool(path, 1, forWriter)
	_, err := db.ExecContext(t.Context(), stmt)
	must(t, err, db.Close())
}

// TestSnapshotBeforeMigration brings a file with contents to a later schema.
func TestSnapshotBeforeMigration(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "broker.db")
	c := open(t, path)
	must(t, c.CreateRole(t.Context(), role("kept")))
	shut(t, c)

	first, err := fs.ReadFile(migrations(), "0001_access.sql")
	must(t, err)
	broken := fstest.MapFS{
		"0001_access.sql": {Data: first},
		"0002_more.sql":   {Data: []byte("-- +goose Up\nCREATE TABLE more (x INTEGER) STRICT;\nCREATE TABLE more (x INTEGER) STRICT;\n")},
	}
	whole := fstest.MapFS{
		"0001_access.sql": {Data: first},
		"0002_more.sql":   {Data: []byte("-- +goose Up\nCREATE TABLE more (x INTEGER) STRICT;\n")},
	}
	db := openPool(path, 1, forWriter)
	defer db.Close()
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
	old := open(t, path+".before-v2")
	if _, ok := old.state.Load().Role("kept"); !ok {
		t.Error("the copy lacks what was stored")
	}
	if _, err := os.Stat(path + ".before-v2.partial"); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("a partial copy stayed: %v", err)
	}
}

// TestFullDisk limits the file's size, which SQLite reports as a full disk.
func TestFullDisk(t *testing.T) {
	t.Parallel()
	ctx, c := t.Context(), fresh(t)
	must(t, c.CreateRole(ctx, role("before")), c.Ping(ctx))
	limit := func(pages int) {
		_, err := c.store.w.ExecContext(ctx, fmt.Sprintf("PRAGMA max_page_count = %d", pages))
		must(t, err)
	}
	limit(1) // SQLite keeps it at the pages that there are
	big := role("big", strings.Repeat("x", 60_000))
	err := c.CreateRole(ctx, big)
	wantKind(t, err, broker.Internal)
	if e, _ := errors.AsType[*broker.Error](err); !strings.Contains(e.Msg, "disk") || e.Op != "createRole" {
		t.Errorf("got %+v, want a sentence about the disk", e)
	}
	answer := command(t, c, `{"command":"createRole","rolename":"`+strings.Repeat("y", 60_000)+`","correlationData":"z"},{"command":"listRoles"}`)
	if want := `{"responses":[{"command":"createRole","error":"Internal error","correlationData":"z"},{"command":"listRoles","error":"Internal error"}]}`; answer != want {
		t.Errorf("got %s, want %s", answer, want)
	}
	if got, want := command(t, c, `{"command":"listRoles"}`), `{"responses":[{"command":"listRoles","data":{"totalCount":1,"roles":["before"]}}]}`; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
	limit(1 << 30)
	must(t, c.Ping(ctx), c.CreateRole(ctx, big))
	if diff := cmp.Diff(inMemory(t, c), export(t, c)); diff != "" {
		t.Errorf("memory (-) and file (+) differ:\n%s", diff)
	}
}

func TestLostDatabase(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	c, err := Open(ctx, Options{Path: filepath.Join(t.TempDir(), "broker.db")})
	must(t, err, c.CreateRole(ctx, role("r")), c.store.w.Close())
	defer c.Close(ctx) //nolint:errcheck // it cannot succeed
	wantKind(t, c.CreateRole(ctx, role("s")), broker.Internal)
	wantKind(t, c.Ping(ctx), broker.Internal)
	if _, ok := c.state.Load().Role("s"); ok {
		t.Error("what could not be stored is visible")
	}
	if _, ok := c.state.Load().Role("r"); !ok {
		t.Error("what was stored is gone")
	}
}

package db_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"signalbox/db"
	"signalbox/db/dbtest"
	"signalbox/scripts/suite"
)

func TestMain(m *testing.M) {
	if path := os.Getenv(writerEnv); path != "" {
		os.Exit(writeUntilKilled(path))
	}
	if dir := os.Getenv(replicaEnv); dir != "" {
		os.Exit(followUntilKilled(dir))
	}
	suite.Main(m)
}

func TestFilesBelongToTheirOwnerAlone(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	d := dbtest.Open(t, filepath.Join(dir, "signalbox.db"))
	must(t, d.CreateUser(t.Context(), user("u")))
	entries, err := os.ReadDir(dir)
	must(t, err)
	var names []string
	for _, e := range entries {
		info, err := e.Info()
		must(t, err)
		names = append(names, e.Name())
		if mode := info.Mode().Perm(); mode != 0o600 {
			t.Errorf("%s: got mode %o, want 600", e.Name(), mode)
		}
	}
	wantEqual(t, names, []string{"signalbox.db", "signalbox.db-shm", "signalbox.db-wal"})
}

func TestCloseLeavesOneFileWithEverything(t *testing.T) {
	t.Parallel()
	// What SQLite would take for a parameter or an escape is part of the name here.
	dir := filepath.Join(t.TempDir(), "a b?mode=memory#50%41")
	must(t, os.Mkdir(dir, 0o700))
	path := filepath.Join(dir, "signal:box.db")
	d, err := db.Open(t.Context(), path, slog.New(slog.DiscardHandler))
	must(t, err, d.CreateUser(t.Context(), user("u")), d.Close(t.Context()))
	entries, err := os.ReadDir(dir)
	must(t, err)
	if len(entries) != 1 || entries[0].Name() != "signal:box.db" {
		t.Errorf("got files %v, want signal:box.db alone", entries)
	}
	_, err = dbtest.Open(t, path).GetUser(t.Context(), "u")
	wantErr(t, err, nil)
}

// A copy of the file alone is complete after Close even while a backup tool has
// it open, which keeps the log in place.
func TestCloseWritesTheLogBack(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "signalbox.db")
	dbtest.Open(t, path)
	d, err := db.Open(t.Context(), path, slog.New(slog.DiscardHandler))
	must(t, err, d.CreateUser(t.Context(), user("u")), d.Close(t.Context()))
	info, err := os.Stat(path + "-wal")
	must(t, err)
	if info.Size() != 0 {
		t.Errorf("got %d bytes left in the log, want none", info.Size())
	}
}

func TestOpenNamesAnUnusablePath(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "missing", "signalbox.db")
	_, err := db.Open(t.Context(), path, slog.New(slog.DiscardHandler))
	if pathErr, ok := errors.AsType[*os.PathError](err); !ok || pathErr.Path != path {
		t.Errorf("got %v, want an error about %s", err, path)
	}
}

func TestEndedContextChangesNothing(t *testing.T) {
	t.Parallel()
	d := world(t)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	wantErr(t, d.CreateUser(ctx, user("u")), context.Canceled)
	wantErr(t, d.Ping(ctx), context.Canceled)
	_, err := d.RoleOf(ctx, "p", "owner")
	wantErr(t, err, context.Canceled)
	_, err = d.ListBrokers(ctx, "p")
	wantErr(t, err, context.Canceled)
	_, err = d.GetUser(t.Context(), "u")
	wantErr(t, err, db.ErrNotFound)
}

// Many callers at once, in two processes' worth of pools, meet no "database is
// locked", and no update is lost.
func TestWritersAndReadersAtOnce(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "signalbox.db")
	one, two, ctx := dbtest.Open(t, path), dbtest.Open(t, path), t.Context()
	must(t, one.WaitLonger(ctx), two.WaitLonger(ctx)) // a slow disk may keep one pool from its turn for seconds
	populate(t, one)
	const callers = 16
	errs := make(chan error, callers)
	for i := range callers {
		d := []*db.DB{one, two}[i%2]
		go func() {
			id := fmt.Sprintf("b%d", i)
			_, readErr := d.ListTokens(ctx, "p")
			errs <- errors.Join(readErr, d.CreateBroker(ctx, connection(id, "p")),
				raise(ctx, d, "b"), d.CreateToken(ctx, token(id, "p", id)), d.Ping(ctx))
		}()
	}
	for range callers {
		wantErr(t, <-errs, nil)
	}
	shared, err := one.GetBroker(ctx, "p", "b")
	wantErr(t, err, nil)
	wantEqual(t, shared.Rev, int64(1+callers))
	tokens, err := two.ListTokens(ctx, "p")
	wantErr(t, err, nil)
	wantEqual(t, len(tokens), callers)
	if slices.ContainsFunc(tokens, func(t db.Token) bool { return len(t.Brokers) != 1 }) {
		t.Error("a token lacks its broker")
	}
}

// raise updates a broker until no other update came in between.
func raise(ctx context.Context, d *db.DB, id string) error {
	for {
		b, err := d.GetBroker(ctx, "p", id)
		if err != nil {
			return err
		}
		if err := d.UpdateBroker(ctx, b); !errors.Is(err, db.ErrConflict) {
			return err
		}
	}
}

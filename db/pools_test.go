package db

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"log/slog"
	"path/filepath"
	"testing"

	"modernc.org/sqlite"
	sqlite3 "modernc.org/sqlite/lib"

	"signalbox/scripts/suite"
)

func openHere(t *testing.T) *DB {
	t.Helper()
	d, err := Open(t.Context(), filepath.Join(t.TempDir(), "signalbox.db"), slog.New(slog.DiscardHandler))
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

// WaitLonger has the writer wait for those of other processes as long as a test may
// take, and not for five seconds.
func (d *DB) WaitLonger(ctx context.Context) error {
	_, err := d.rw.ExecContext(ctx, fmt.Sprintf("PRAGMA busy_timeout = %d", suite.HangLimit.Milliseconds()))
	return err
}

// A parameter that SQLite does not know is ignored without a word, so what was
// asked for is read back.
func TestPragmasTakeEffect(t *testing.T) {
	t.Parallel()
	d := openHere(t)
	tests := []struct {
		pool   *sql.DB
		pragma string
		want   string
	}{
		{d.rw, "journal_mode", "wal"},
		{d.rw, "synchronous", "2"},
		{d.rw, "foreign_keys", "1"},
		{d.rw, "busy_timeout", "5000"},
		{d.rw, "journal_size_limit", "67108864"},
		{d.rw, "application_id", "1399276152"},
		{d.ro, "query_only", "1"},
		{d.ro, "busy_timeout", "5000"},
	}
	for _, tt := range tests {
		var got string
		if err := tt.pool.QueryRowContext(t.Context(), "PRAGMA "+tt.pragma).Scan(&got); err != nil {
			t.Fatal(err)
		}
		if got != tt.want {
			t.Errorf("%s: got %s, want %s", tt.pragma, got, tt.want)
		}
	}
}

func TestReadersCannotWrite(t *testing.T) {
	t.Parallel()
	d := openHere(t)
	_, err := d.ro.ExecContext(t.Context(), "UPDATE probe SET writes = 7")
	if got := code(err); got != sqlite3.SQLITE_READONLY {
		t.Errorf("got %v, want it refused as read-only", err)
	}
}

// The storage is made to refuse by SQLite's own switch: the code that comes back
// is the one of a read-only disk.
func TestPingFollowsTheStorage(t *testing.T) {
	t.Parallel()
	d, ctx := openHere(t), t.Context()
	ping := func(wantHealthy bool, wantWrites int) {
		t.Helper()
		if err := d.Ping(ctx); (err == nil) != wantHealthy {
			t.Errorf("got %v, want healthy %t", err, wantHealthy)
		} else if refused, ok := errors.AsType[*sqlite.Error](err); !wantHealthy && !ok {
			t.Errorf("got %v, want SQLite's error", refused)
		}
		var writes int
		if err := d.ro.QueryRowContext(ctx, "SELECT writes FROM probe").Scan(&writes); err != nil {
			t.Fatal(err)
		}
		if writes != wantWrites {
			t.Errorf("got %d probes written, want %d", writes, wantWrites)
		}
	}
	refuse := func(on string) {
		t.Helper()
		if _, err := d.rw.ExecContext(ctx, "PRAGMA query_only = "+on); err != nil {
			t.Fatal(err)
		}
	}
	ping(true, 0)
	refuse("1")
	ping(false, 0)
	ping(false, 0)
	refuse("0")
	ping(true, 1) // believed only after a write for good
	ping(true, 1)
}

func TestFailedTransactionLeavesNothing(t *testing.T) {
	t.Parallel()
	d, ctx := openHere(t), t.Context()
	stop := errors.New("stop")
	err := d.write(ctx, "test", func(tx *writeTx) error {
		if err := insertUser(ctx, tx, User{ID: "u"}); err != nil {
			return err
		}
		return stop
	})
	if !errors.Is(err, stop) {
		t.Errorf("got %v, want %v", err, stop)
	}
	if _, err := d.GetUser(ctx, "u"); !errors.Is(err, ErrNotFound) {
		t.Errorf("got %v, want %v", err, ErrNotFound)
	}
}

package storage

import (
	"database/sql/driver"
	"errors"
	"slices"
	"testing"
)

// The indexes of the tests' statements.
const (
	putNote = iota
	readNotes
)

func connect(t *testing.T, f *File) *Conn {
	t.Helper()
	c, err := f.Connect(t.Context(), Full, []string{putNote: `INSERT INTO note (body) VALUES (?)`, readNotes: `SELECT body FROM note WHERE id >= ? ORDER BY id`})
	must(t, err)
	t.Cleanup(func() { must(t, c.Close()) })
	return c
}

// TestTransact commits a transaction that succeeds, and rolls back one that
// fails.
func TestTransact(t *testing.T) {
	t.Parallel()
	c := connect(t, fresh(t))
	broken := errors.New("broken")
	for _, want := range []error{nil, broken, nil} {
		err := c.Transact(t.Context(), func(tx Tx) error {
			must(t, tx.Exec(putNote, "first"), tx.Exec(putNote, []byte("second")))
			return want
		})
		if !errors.Is(err, want) {
			t.Errorf("got %v, want %v", err, want)
		}
	}
	var got []any
	must(t, c.Transact(t.Context(), func(tx Tx) error {
		row := make([]driver.Value, 1)
		return tx.Query(readNotes, row, func() error { got = append(got, row[0]); return nil }, int64(2))
	}))
	for i, v := range got {
		if b, ok := v.([]byte); ok {
			got[i] = string(b)
		}
	}
	if want := []any{"second", "first", "second"}; !slices.Equal(got, want) {
		t.Errorf("stored %q, want %q", got, want)
	}
}

// TestQueryBreaksOff ends a query early and uses its statement again.
func TestQueryBreaksOff(t *testing.T) {
	t.Parallel()
	c := connect(t, fresh(t))
	enough := errors.New("enough")
	must(t, c.Transact(t.Context(), func(tx Tx) error {
		must(t, tx.Exec(putNote, int64(1)), tx.Exec(putNote, int64(2)))
		for range 2 {
			row, rows := make([]driver.Value, 1), 0
			err := tx.Query(readNotes, row, func() error { rows++; return enough }, int64(0))
			if !errors.Is(err, enough) || rows != 1 || row[0] != int64(1) {
				t.Errorf("got %v after %d rows, the last %v", err, rows, row)
			}
		}
		return nil
	}))
}

// TestReleasePages shrinks a file step by step after a large deletion.
func TestReleasePages(t *testing.T) {
	t.Parallel()
	f := fresh(t)
	c := connect(t, f)
	must(t, c.Transact(t.Context(), func(tx Tx) error { return tx.Exec(putNote, make([]byte, 2*Spare)) }))
	must(t, c.Transact(t.Context(), func(tx Tx) error { return tx.Run(`DELETE FROM note`) }))
	before, err := c.freePages(t.Context())
	must(t, err)
	for more := true; more; {
		more, err = c.tidy(t.Context())
		must(t, err)
	}
	if after, err := c.freePages(t.Context()); err != nil || before < 2*sparePages || after != sparePages {
		t.Errorf("%d pages are free (%v), %d were before; want %d", after, err, before, sparePages)
	}
}

package cluster

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"testing/fstest"

	"signalbox/broker/storage"
)

// list is a Shared: the entries that were applied, in a SQLite file, with its index in the same
// transaction. Two lists are equal only if the same entries were applied in the same order. An entry
// that is applied twice is there twice.
type list struct {
	file *storage.File
	db   *sql.DB

	mu       sync.Mutex
	entries  []string
	applied  uint64
	broken   error // with which Apply and Restore fail
	restores int
	flushed  uint64 // applied at the last call of Flush
	noFlush  error  // with which Flush fails
	schema   atomic.Int64
}

func openList(t testing.TB, path string) *list {
	t.Helper()
	f, err := storage.Open(context.Background(), path, storage.Layout{Name: "the list", Migrations: fstest.MapFS{
		"0001_list.sql": {Data: []byte("-- +goose Up\nCREATE TABLE entry (position INTEGER PRIMARY KEY, body TEXT) STRICT;\n" +
			"CREATE TABLE applied (idx INTEGER) STRICT;\nINSERT INTO applied VALUES (0);\n")},
	}}, slog.New(slog.DiscardHandler))
	must(t, err)
	l := &list{file: f, db: f.Writer(storage.Process)}
	must(t, l.db.QueryRow(`SELECT idx FROM applied`).Scan(&l.applied))
	rows, err := l.db.Query(`SELECT body FROM entry ORDER BY position`)
	must(t, err)
	defer rows.Close()
	for rows.Next() {
		var body string
		must(t, rows.Scan(&body))
		l.entries = append(l.entries, body)
	}
	must(t, rows.Err())
	return l
}

func (l *list) close() error { return errors.Join(l.db.Close(), l.file.Close()) }

// store changes the file and sets the index in one transaction.
func (l *list) store(index uint64, change func(tx *sql.Tx) error) error {
	tx, err := l.db.Begin()
	if err != nil {
		return err
	}
	defer tx.Rollback()
	if err := change(tx); err != nil {
		return err
	}
	if _, err := tx.Exec(`UPDATE applied SET idx = ?`, index); err != nil {
		return err
	}
	return tx.Commit()
}

// Apply appends an entry. The result is its position.
func (l *list) Apply(_ context.Context, index uint64, entry []byte) ([]byte, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.broken != nil {
		return nil, l.broken
	}
	if index <= l.applied {
		panic(fmt.Sprintf("entry %d is applied again after %d", index, l.applied))
	}
	position := len(l.entries) + 1
	err := l.store(index, func(tx *sql.Tx) error {
		_, err := tx.Exec(`INSERT INTO entry VALUES (?, ?)`, position, string(entry))
		return err
	})
	if err != nil {
		return nil, err
	}
	l.entries, l.applied = append(l.entries, string(entry)), index
	return []byte(strconv.Itoa(position)), nil
}

// Flush notes what was applied.
func (l *list) Flush(context.Context) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.noFlush == nil {
		l.flushed = l.applied
	}
	return l.noFlush
}

// failFlush makes Flush fail with an error; nil ends that.
func (l *list) failFlush(err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.noFlush = err
}

// isFlushed reports whether everything that was applied is on the disk.
func (l *list) isFlushed() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.flushed == l.applied
}

// Schema returns what a test has set.
func (l *list) Schema() (stored, own int64) { return l.schema.Load(), l.schema.Load() }

func (l *list) Applied() uint64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.applied
}

// all returns the entries.
func (l *list) all() []string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.Clone(l.entries)
}

// restored returns how many snapshots were restored since the list was opened.
func (l *list) restored() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.restores
}

// breaks makes Apply and Restore fail with an error; nil ends that.
func (l *list) breaks(err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.broken = err
}

type listView []string

func (v listView) WriteTo(w io.Writer) (int64, error) {
	text, err := json.Marshal(v)
	if err != nil {
		return 0, err
	}
	n, err := w.Write(text)
	return int64(n), err
}

func (listView) Release() {}

func (l *list) Snapshot(context.Context) (Snapshot, error) { return listView(l.all()), nil }

func (l *list) Restore(_ context.Context, index uint64, r io.Reader) error {
	var entries []string
	if err := json.NewDecoder(r).Decode(&entries); err != nil {
		return err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.broken != nil {
		return l.broken
	}
	err := l.store(index, func(tx *sql.Tx) error {
		if _, err := tx.Exec(`DELETE FROM entry`); err != nil {
			return err
		}
		for i, body := range entries {
			if _, err := tx.Exec(`INSERT INTO entry VALUES (?, ?)`, i+1, body); err != nil {
				return err
			}
		}
		return nil
	})
	if err == nil {
		l.entries, l.applied = entries, index
		l.restores++
	}
	return err
}

package cluster

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"sync"
	"testing"
	"testing/fstest"

	"signalbox/broker/storage"
)

// register is a machine of keys and values in a SQLite file, with its index in
// the same transaction.
type register struct {
	file *storage.File
	db   *sql.DB

	mu       sync.Mutex
	values   map[string]string
	applied  uint64
	broken   error // with which Apply stops
	restores int
}

// write is a command of a register. Its result is the value that it replaces.
type write struct{ Key, Value string }

func (w write) encode() []byte {
	text, _ := json.Marshal(w)
	return text
}

func openRegister(t testing.TB, path string) *register {
	t.Helper()
	f, err := storage.Open(context.Background(), path, storage.Layout{Name: "the register", Migrations: fstest.MapFS{
		"0001_register.sql": {Data: []byte("-- +goose Up\nCREATE TABLE value (key TEXT PRIMARY KEY, value TEXT) STRICT;\n" +
			"CREATE TABLE applied (idx INTEGER) STRICT;\nINSERT INTO applied VALUES (0);\n")},
	}}, slog.New(slog.DiscardHandler))
	must(t, err)
	r := &register{file: f, db: f.Writer(storage.Process), values: map[string]string{}}
	must(t, r.db.QueryRow(`SELECT idx FROM applied`).Scan(&r.applied))
	rows, err := r.db.Query(`SELECT key, value FROM value`)
	must(t, err)
	defer rows.Close()
	for rows.Next() {
		var k, v string
		must(t, rows.Scan(&k, &v))
		r.values[k] = v
	}
	must(t, rows.Err())
	return r
}

func (r *register) close() error { return errors.Join(r.db.Close(), r.file.Close()) }

// store changes the file and sets the index in one transaction.
func (r *register) store(index uint64, change func(tx *sql.Tx) error) error {
	tx, err := r.db.Begin()
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

func (r *register) Apply(index uint64, command []byte) any {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.broken != nil {
		return ApplyError{r.broken}
	}
	if index <= r.applied {
		panic(fmt.Sprintf("command %d is given again after %d", index, r.applied))
	}
	var w write
	if err := json.Unmarshal(command, &w); err != nil {
		return ApplyError{err}
	}
	err := r.store(index, func(tx *sql.Tx) error {
		_, err := tx.Exec(`INSERT INTO value VALUES (?, ?) ON CONFLICT (key) DO UPDATE SET value = excluded.value`, w.Key, w.Value)
		return err
	})
	if err != nil {
		return ApplyError{err}
	}
	old := r.values[w.Key]
	r.values[w.Key], r.applied = w.Value, index
	return old
}

func (r *register) Applied() uint64 {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.applied
}

// restored returns how many snapshots were restored.
func (r *register) restored() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.restores
}

func (r *register) get(key string) string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.values[key]
}

func (r *register) all() map[string]string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return maps.Clone(r.values)
}

// breaks makes Apply fail with an error; nil ends that.
func (r *register) breaks(err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.broken = err
}

type registerView struct{ values map[string]string }

func (v registerView) WriteTo(w io.Writer) (int64, error) {
	text, err := json.Marshal(v.values)
	if err != nil {
		return 0, err
	}
	n, err := w.Write(text)
	return int64(n), err
}

func (registerView) Release() {}

func (r *register) Snapshot(context.Context) (Snapshot, error) { return registerView{r.all()}, nil }

func (r *register) Restore(_ context.Context, index uint64, from io.Reader) error {
	values := map[string]string{}
	if err := json.NewDecoder(from).Decode(&values); err != nil {
		return err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	err := r.store(index, func(tx *sql.Tx) error {
		if _, err := tx.Exec(`DELETE FROM value`); err != nil {
			return err
		}
		for k, v := range values {
			if _, err := tx.Exec(`INSERT INTO value VALUES (?, ?)`, k, v); err != nil {
				return err
			}
		}
		return nil
	})
	if err == nil {
		r.values, r.applied = values, index
		r.restores++
	}
	return err
}

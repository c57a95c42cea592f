package access

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"sync/atomic"

	"signalbox/broker/embedded/schema"
	"signalbox/broker/storage"
)

// store is the access control as SQLite keeps it: one connection that writes,
// and a few that read beside it. Whoever writes holds the file's lock.
type store struct {
	file *storage.File
	owns bool    // the file is this store's to close
	w    *sql.DB // one connection
	r    *sql.DB // query_only; for what a log-in reads, and other single records
	bulk *sql.DB // query_only; for what reads all records, which may take long

	put      *statements // prepared on w
	passwd   *sql.Stmt   // prepared on r
	writable atomic.Bool // the last transaction was stored

	durability storage.Durability // of what w commits; whoever has the file's lock may change it
}

// openStore opens the file, unless it is open, and prepares all statements.
func openStore(ctx context.Context, o Options) (*store, error) {
	s := &store{file: o.File, owns: o.File == nil}
	if s.owns {
		var err error
		if s.file, err = schema.Open(ctx, o.Path, o.Log); err != nil {
			return nil, err
		}
	}
	s.durability = storage.Full
	s.w, s.r, s.bulk = s.file.Writer(s.durability), s.file.Readers(), s.file.Readers()
	s.writable.Store(true)
	if err := s.prepare(ctx); err != nil {
		return nil, errors.Join(storage.Explain(s.file.Path(), fmt.Errorf("prepare %s: %w", s.file.Path(), err)), s.close())
	}
	return s, nil
}

func (s *store) prepare(ctx context.Context) (err error) {
	if s.put, err = prepareStatements(ctx, s.w); err != nil {
		return err
	}
	// The hash of the next name in order stands in for one that has none, so
	// that an unknown name costs what its neighbour would.
	s.passwd, err = s.r.PrepareContext(ctx, `
		SELECT username, encoded FROM access_passwords
		WHERE username >= ?
		ORDER BY username LIMIT 1`)
	return err
}

// password gives the encoded hash of a client. Where it has none, another
// client's comes back under that client's name; where there is none at all,
// both are "".
func (s *store) password(ctx context.Context, username string) (name, encoded string, err error) {
	for _, from := range []string{username, ""} {
		err = s.passwd.QueryRowContext(ctx, from).Scan(&name, &encoded)
		if err == nil {
			return name, encoded, nil
		}
		if !errors.Is(err, sql.ErrNoRows) {
			return "", "", fmt.Errorf("read the password of client %q: %w", username, err)
		}
	}
	return "", "", nil
}

// ping tells whether the store can be written to. After a failure it writes in
// earnest to see whether the cause is gone.
func (s *store) ping(ctx context.Context) error {
	if err := s.file.Lock(ctx); err != nil {
		return classify(err)
	}
	defer s.file.Unlock()
	tx, err := s.w.BeginTx(ctx, nil)
	if err != nil {
		return classify(err)
	}
	defer tx.Rollback() //nolint:errcheck // nothing to undo after a commit
	const q = `UPDATE access_settings SET change_index = change_index`
	if _, err := tx.ExecContext(ctx, q); err != nil {
		return classify(err)
	}
	if s.writable.Load() {
		return nil
	}
	if err := tx.Commit(); err != nil {
		return classify(err)
	}
	s.writable.Store(true)
	return nil
}

// endure says what the next commits outlive. The file's lock is held.
func (s *store) endure(ctx context.Context, d storage.Durability) error {
	if d == s.durability {
		return nil
	}
	if err := storage.SetDurability(ctx, s.w, d); err != nil {
		return fmt.Errorf("say how durable the access control is: %w", err)
	}
	s.durability = d
	return nil
}

// close ends the connections and, where nobody else uses it, closes the file.
func (s *store) close() error {
	err := errors.Join(s.bulk.Close(), s.r.Close(), s.w.Close())
	if s.owns {
		err = errors.Join(err, s.file.Close())
	}
	return err
}

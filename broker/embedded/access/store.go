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

// store is the access control in SQLite: one connection that writes, and several that read.
// A writer holds the file's lock.
type store struct {
	file *storage.File
	owns bool    // the file must be closed with the store
	w    *sql.DB // one connection
	r    *sql.DB // query_only; for log-ins and other reads of single records
	bulk *sql.DB // query_only; for reads of all records, which may take long

	put      *statements // prepared on w
	passwd   *sql.Stmt   // prepared on r
	writable atomic.Bool // the last transaction was stored

	durability storage.Durability // of w's commits; guarded by the file's lock
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
	// The hash of the next name in order is used for one that has none, so that an unknown
	// name costs what its neighbour would: hashes of several costs, as imports bring them,
	// would otherwise show which names exist.
	s.passwd, err = s.r.PrepareContext(ctx, `
		SELECT username, encoded FROM access_passwords
		WHERE username >= ?
		ORDER BY username LIMIT 1`)
	return err
}

// password returns the encoded hash of a client. If it has none, it returns another
// client's hash with that client's name; if no client has one, both are "".
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

// ping returns an error if the store cannot be written to. After a failed write it commits
// a write to find out whether the cause still exists.
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

// setDurability sets what the next commits survive. The caller holds the file's lock.
func (s *store) setDurability(ctx context.Context, d storage.Durability) error {
	if d == s.durability {
		return nil
	}
	if err := storage.SetDurability(ctx, s.w, d); err != nil {
		return fmt.Errorf("set the durability of the access control: %w", err)
	}
	s.durability = d
	return nil
}

// close closes the connections and, if the store opened it, the file.
func (s *store) close() error {
	err := errors.Join(s.bulk.Close(), s.r.Close(), s.w.Close())
	if s.owns {
		err = errors.Join(err, s.file.Close())
	}
	return err
}

package access

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"log/slog"
	"net/url"
	"os"
	"path/filepath"
	"runtime"
	"sync/atomic"

	_ "modernc.org/sqlite" // the driver "sqlite"
)

// store is the access control as SQLite keeps it: one connection that writes,
// and a few that read beside it.
type store struct {
	w *sql.DB // one connection; transactions take the write lock at once
	r *sql.DB // query_only

	put      *statements // prepared on w
	passwd   *sql.Stmt   // prepared on r
	writable atomic.Bool // the last transaction was stored
}

// The writer's cache holds the pages of some 100,000 clients, and its log is
// folded into the file every 16 MiB: both keep a change from costing more the
// more clients there are. Readers look up single rows and need little.
const (
	forWriter = "_txlock=immediate&_pragma=cache_size(-16000)&_pragma=wal_autocheckpoint(4000)&_pragma=journal_size_limit(67108864)"
	forReader = "_pragma=query_only(1)&_pragma=cache_size(-2000)"
)

// openStore opens or creates the file and brings its schema up to date.
func openStore(ctx context.Context, path string, log *slog.Logger) (*store, error) {
	abs, err := filepath.Abs(path)
	if err != nil {
		return nil, fmt.Errorf("find %s: %w", path, err)
	}
	if err := touch(abs); err != nil {
		return nil, err
	}
	s := &store{w: openPool(abs, 1, forWriter), r: openPool(abs, max(4, runtime.NumCPU()), forReader)}
	s.writable.Store(true)
	if err := s.prepare(ctx, abs, log); err != nil {
		return nil, errors.Join(err, s.w.Close(), s.r.Close())
	}
	return s, nil
}

// touch makes the file, so that it and those that SQLite puts beside it are for
// the owner only.
func touch(path string) error {
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return fmt.Errorf("open the broker's database: %w; make the folder writable for the user that runs the service", err)
	}
	return f.Close()
}

// openPool opens connections to a file whose path may hold any character.
func openPool(path string, connections int, options string) *sql.DB {
	const pragmas = "_pragma=busy_timeout(5000)&_pragma=journal_mode(WAL)&_pragma=synchronous(FULL)&_pragma=foreign_keys(1)&"
	dsn := url.URL{Scheme: "file", OmitHost: true, Path: filepath.ToSlash(path), RawQuery: pragmas + options}
	db, err := sql.Open("sqlite", dsn.String())
	if err != nil {
		panic(err) // only an unknown driver's name can be wrong here
	}
	db.SetMaxOpenConns(connections)
	db.SetMaxIdleConns(connections)
	return db
}

func (s *store) prepare(ctx context.Context, path string, log *slog.Logger) error {
	if err := migrate(ctx, s.w, path, migrations(), log); err != nil {
		return err
	}
	var err error
	if s.put, err = prepareStatements(ctx, s.w); err != nil {
		return fmt.Errorf("prepare %s: %w", path, err)
	}
	// The hash of the next name in order stands in for one that has none, so
	// that an unknown name costs what its neighbour would.
	s.passwd, err = s.r.PrepareContext(ctx, `
		SELECT username, encoded FROM access_passwords
		WHERE username >= ?
		ORDER BY username LIMIT 1`)
	if err != nil {
		return fmt.Errorf("prepare %s: %w", path, err)
	}
	return nil
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

// close folds the log into the file and closes it.
func (s *store) close() error {
	err := s.r.Close()
	for _, q := range []string{`PRAGMA optimize`, `PRAGMA wal_checkpoint(TRUNCATE)`} {
		if _, e := s.w.Exec(q); e != nil {
			err = errors.Join(err, fmt.Errorf("%s: %w", q, e))
		}
	}
	return errors.Join(err, s.w.Close())
}

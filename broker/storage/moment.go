package storage

import (
	"context"
	"database/sql"
	"errors"
	"fmt"

	"modernc.org/sqlite"
)

// pagesPerCopyStep bounds how long Copy runs before it looks at its context.
const pagesPerCopyStep = 1024

// Moment is a read transaction in each of several databases, all begun at the same
// moment. It must be closed: while it is open, the write-ahead log of each
// database grows with every change.
type Moment struct {
	pools []*sql.DB
	conns map[string]*sql.Conn // in a read transaction, by path
}

// BeginMoment begins a read transaction in each of the databases while it holds the
// write transaction of all of them, which it ends before it returns. The files may be
// open elsewhere, even in another process.
func BeginMoment(ctx context.Context, paths []string) (m *Moment, err error) {
	m = &Moment{conns: map[string]*sql.Conn{}}
	var writers []*sql.Tx
	defer func() {
		for _, w := range writers {
			err = errors.Join(err, w.Rollback())
		}
		if err != nil {
			m, err = nil, errors.Join(err, m.Close())
		}
	}()
	for _, path := range paths { // opening takes longest, and needs no lock
		if err := m.open(ctx, path); err != nil {
			return m, err
		}
	}
	for _, path := range paths {
		w, err := m.pool(path, "mode=rw&"+forAll+"_txlock=immediate").BeginTx(ctx, nil)
		if err != nil {
			return m, OpenError(path, err)
		}
		writers = append(writers, w)
	}
	for _, path := range paths {
		if err := beginRead(ctx, m.conns[path]); err != nil {
			return m, OpenError(path, err)
		}
	}
	return m, nil
}

func (m *Moment) pool(path, options string) *sql.DB {
	db := OpenPool(path, 1, options)
	m.pools = append(m.pools, db)
	return db
}

func (m *Moment) open(ctx context.Context, path string) error {
	conn, err := m.pool(path, "mode=rw&"+forAll+forReader).Conn(ctx)
	if err != nil {
		return OpenError(path, err)
	}
	m.conns[path] = conn
	return nil
}

// beginRead reads as well, because SQLite takes its snapshot with the first read.
func beginRead(ctx context.Context, conn *sql.Conn) error {
	if _, err := conn.ExecContext(ctx, `BEGIN`); err != nil {
		return err
	}
	var n int
	return conn.QueryRowContext(ctx, `SELECT count(*) FROM sqlite_schema`).Scan(&n)
}

// Copy writes the database at path, as it was at the moment, to a new file. The file is
// complete, durable and readable by its owner only if there is no error.
func (m *Moment) Copy(ctx context.Context, path, target string) error {
	if err := create(target, "the copy of the database"); err != nil {
		return err
	}
	err := m.conns[path].Raw(func(conn any) error { return copyPages(ctx, conn, target) })
	if err != nil {
		return fmt.Errorf("copy the database %s to %s: %w", path, target, err)
	}
	return secure(target)
}

func copyPages(ctx context.Context, conn any, target string) error {
	source, ok := conn.(interface {
		NewBackup(string) (*sqlite.Backup, error)
	})
	if !ok {
		return fmt.Errorf("%T cannot copy a database", conn)
	}
	b, err := source.NewBackup(target)
	if err != nil {
		return err
	}
	for more := true; more && err == nil; {
		if err = ctx.Err(); err == nil {
			more, err = b.Step(pagesPerCopyStep)
		}
	}
	return errors.Join(err, b.Finish())
}

// Close ends the read transactions.
func (m *Moment) Close() (err error) {
	for _, conn := range m.conns {
		_, e := conn.ExecContext(context.Background(), `ROLLBACK`)
		if e != nil && Fault(e) {
			err = errors.Join(err, e)
		}
		err = errors.Join(err, conn.Close())
	}
	for _, db := range m.pools {
		err = errors.Join(err, db.Close())
	}
	return err
}

package storage

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"os"
	"time"

	"modernc.org/sqlite"
	sqlite3 "modernc.org/sqlite/lib"
)

// pagesPerCopyStep bounds how long Copy runs before it looks at its context.
const pagesPerCopyStep = 1024

// Bounds of the wait for writers of other processes. SQLite does not queue those who wait, so
// the write transactions that were begun are ended between two attempts, and others write.
const (
	momentWait     = 250 * time.Millisecond // for one database
	momentPause    = 50 * time.Millisecond
	momentAttempts = 100
)

// maxCopyLog bounds the write-ahead log of a database while it is copied.
const maxCopyLog = 8 << 30

// Moment is a read transaction in each of several databases, all begun at the same
// moment. It must be closed: while it is open, the write-ahead log of each
// database grows with every change.
type Moment struct {
	pools  []*sql.DB
	conns  map[string]*sql.Conn // in a read transaction, by path
	maxLog int64
}

// BeginMoment begins a read transaction in each of the databases while it holds the
// write transaction of all of them, which it ends before it returns. The files may be
// open elsewhere, even in another process; behind the writers of a [File] of this process it
// waits in their order.
func BeginMoment(ctx context.Context, paths []string) (m *Moment, err error) {
	m = &Moment{conns: map[string]*sql.Conn{}, maxLog: maxCopyLog}
	defer func() {
		if err != nil {
			m, err = nil, errors.Join(err, m.Close())
		}
	}()
	for _, path := range paths { // opening takes longest, and needs no lock
		if err := m.open(ctx, path); err != nil {
			return m, err
		}
	}
	unlock, err := lockOpen(ctx, paths)
	if err != nil {
		return m, err
	}
	defer unlock()
	var writers []*sql.DB
	for _, path := range paths {
		writers = append(writers, m.pool(path, fmt.Sprintf("mode=rw&%s_pragma=busy_timeout(%d)&_txlock=immediate", forAll, momentWait.Milliseconds())))
	}
	for attempt := 1; ; attempt++ {
		if err = m.begin(ctx, paths, writers); err == nil || !isBusy(err) || attempt == momentAttempts {
			return m, err
		}
		select {
		case <-time.After(momentPause):
		case <-ctx.Done():
			return m, context.Cause(ctx)
		}
	}
}

// begin begins the read transactions while it holds all write transactions.
func (m *Moment) begin(ctx context.Context, paths []string, writers []*sql.DB) (err error) {
	var held []*sql.Tx
	defer func() {
		for _, w := range held {
			err = errors.Join(err, w.Rollback())
		}
	}()
	for i, path := range paths {
		w, err := writers[i].BeginTx(ctx, nil)
		if err != nil {
			return OpenError(path, err)
		}
		held = append(held, w)
	}
	for _, path := range paths {
		if err := beginRead(ctx, m.conns[path]); err != nil {
			m.rollback() //nolint:errcheck // the error of the beginning counts
			return OpenError(path, err)
		}
	}
	return nil
}

// isBusy reports whether an error is that another connection writes.
func isBusy(err error) bool {
	code, ofSQLite := primaryCode(err)
	return ofSQLite && code == sqlite3.SQLITE_BUSY
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
	err := m.conns[path].Raw(func(conn any) error { return m.copyPages(ctx, conn, path, target) })
	if err != nil {
		return fmt.Errorf("copy the database %s to %s: %w", path, target, err)
	}
	return secure(target)
}

func (m *Moment) copyPages(ctx context.Context, conn any, path, target string) error {
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
		if err = errors.Join(ctx.Err(), m.checkLog(path)); err == nil {
			more, err = b.Step(pagesPerCopyStep)
		}
	}
	return errors.Join(err, b.Finish())
}

// checkLog returns an error if the write-ahead log has grown too much: it cannot be truncated
// before the copy is complete, and must not fill the disk.
func (m *Moment) checkLog(path string) error {
	if info, err := os.Stat(path + "-wal"); err == nil && info.Size() > m.maxLog {
		return fmt.Errorf("its write-ahead log has grown to %d bytes meanwhile, as more is written than can be copied: copy to a faster disk, or while less is written", info.Size())
	}
	return nil
}

// rollback ends the read transactions that were begun.
func (m *Moment) rollback() (err error) {
	for _, conn := range m.conns {
		if _, e := conn.ExecContext(context.Background(), `ROLLBACK`); e != nil && Fault(e) {
			err = errors.Join(err, e)
		}
	}
	return err
}

// Close ends the read transactions.
func (m *Moment) Close() (err error) {
	err = m.rollback()
	for _, conn := range m.conns {
		err = errors.Join(err, conn.Close())
	}
	for _, db := range m.pools {
		err = errors.Join(err, db.Close())
	}
	return err
}

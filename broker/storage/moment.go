package storage

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"os"
	"runtime"

	"modernc.org/sqlite"
)

// pagesPerCopyStep bounds how long Copy runs before others get the processor, and before it looks
// at its context.
const pagesPerCopyStep = 128

// undisturbedAttempts bounds how often a moment is looked for beside writers, before these are
// made to wait.
const undisturbedAttempts = 500

// maxCopyLog bounds the write-ahead log of a database while it is copied.
const maxCopyLog = 8 << 30

// Moment is a read transaction in each of several databases, all begun at the same
// moment. It must be closed: while it is open, the write-ahead log of each
// database grows with every change.
type Moment struct {
	pools    []*sql.DB
	conns    map[string]*sql.Conn // by path
	watchers map[string]*sql.Conn // which see whether others commit, by path
	begun    []*sql.Conn          // of conns, those in a transaction
	maxLog   int64
}

// BeginMoment begins a read transaction in each of the databases. The files may be open
// elsewhere, even in another process, and as a rule no writer waits: the last transaction begins
// while nothing has been committed to the other databases since theirs have. Where too much is
// written for that, even repeatedly, the writers wait until all have begun. The database that
// is written to most should be the last one.
func BeginMoment(ctx context.Context, paths []string) (*Moment, error) {
	return beginMoment(ctx, paths, undisturbedAttempts)
}

func beginMoment(ctx context.Context, paths []string, attempts int) (m *Moment, err error) {
	m = &Moment{conns: map[string]*sql.Conn{}, watchers: map[string]*sql.Conn{}, maxLog: maxCopyLog}
	defer func() {
		if err != nil {
			m, err = nil, errors.Join(err, m.Close())
		}
	}()
	for _, path := range paths { // opening takes longest
		if err := m.open(ctx, path); err != nil {
			return m, err
		}
	}
	for range attempts {
		undisturbed, err := m.beginBeside(ctx, paths)
		if isBusy(err) { // it is being opened or closed by another process
			break
		}
		if undisturbed || err != nil {
			return m, err
		}
	}
	return m, m.beginAlone(ctx, paths)
}

// beginBeside begins the read transactions and reports whether they see the same moment: that
// in which the last one began. If not, none has begun.
func (m *Moment) beginBeside(ctx context.Context, paths []string) (undisturbed bool, err error) {
	defer func() {
		if !undisturbed {
			err = errors.Join(err, m.rollback())
		}
	}()
	var before []int64
	for _, path := range paths {
		version, err := m.version(ctx, path)
		if err == nil {
			err = m.beginRead(ctx, path)
		}
		if err != nil {
			return false, OpenError(path, err)
		}
		before = append(before, version)
	}
	for i, path := range paths {
		if i == len(paths)-1 { // what is committed to the last one comes after the moment
			break
		}
		version, err := m.version(ctx, path)
		if err != nil {
			return false, OpenError(path, err)
		}
		if version != before[i] {
			return false, nil
		}
	}
	return true, nil
}

// version returns a number that is another one after each commit of another connection to a
// database.
func (m *Moment) version(ctx context.Context, path string) (n int64, err error) {
	err = m.watchers[path].QueryRowContext(ctx, `PRAGMA data_version`).Scan(&n)
	return n, err
}

func (m *Moment) pool(path, options string) *sql.DB {
	db := OpenPool(path, 1, options)
	m.pools = append(m.pools, db)
	return db
}

func (m *Moment) open(ctx context.Context, path string) error {
	for _, conns := range []map[string]*sql.Conn{m.conns, m.watchers} {
		conn, err := m.pool(path, "mode=rw&"+forAll+forReader).Conn(ctx)
		if err != nil {
			return OpenError(path, err)
		}
		conns[path] = conn
	}
	return nil
}

// beginRead reads as well, because SQLite takes its snapshot with the first read.
func (m *Moment) beginRead(ctx context.Context, path string) error {
	conn := m.conns[path]
	if _, err := conn.ExecContext(ctx, `BEGIN`); err != nil {
		return err
	}
	m.begun = append(m.begun, conn)
	var n int
	return conn.QueryRowContext(ctx, `SELECT count(*) FROM sqlite_schema`).Scan(&n)
}

// Copy writes the database at path, as it was at the moment, to a new file that only its owner can
// read. It is not durable: a copy is a step towards a file that is, and flushing as much as a
// database at once makes those wait who commit meanwhile.
func (m *Moment) Copy(ctx context.Context, path, target string) error {
	if err := create(target, "the copy of the database"); err != nil {
		return err
	}
	err := m.conns[path].Raw(func(conn any) error { return m.copyPages(ctx, conn, path, target) })
	if err != nil {
		return fmt.Errorf("copy the database %s to %s: %w", path, target, err)
	}
	return nil
}

func (m *Moment) copyPages(ctx context.Context, conn any, path, target string) error {
	source, ok := conn.(interface {
		NewBackup(string) (*sqlite.Backup, error)
	})
	if !ok {
		return fmt.Errorf("%T cannot copy a database", conn)
	}
	b, err := source.NewBackup(dataSource(target, "_pragma=synchronous(OFF)&_pragma=journal_mode(OFF)"))
	if err != nil {
		return err
	}
	for more := true; more && err == nil; {
		if err = errors.Join(ctx.Err(), m.checkLog(path)); err == nil {
			more, err = b.Step(pagesPerCopyStep)
			runtime.Gosched()
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
	for _, conn := range m.begun {
		_, e := conn.ExecContext(context.Background(), `ROLLBACK`)
		err = errors.Join(err, e)
	}
	m.begun = nil
	return err
}

// Close ends the read transactions.
func (m *Moment) Close() (err error) {
	err = m.rollback()
	for _, conns := range []map[string]*sql.Conn{m.conns, m.watchers} {
		for _, conn := range conns {
			err = errors.Join(err, conn.Close())
		}
	}
	for _, db := range m.pools {
		err = errors.Join(err, db.Close())
	}
	return err
}

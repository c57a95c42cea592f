package storage

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"time"

	sqlite3 "modernc.org/sqlite/lib"
)

// Bounds of the wait for writers of other processes. SQLite does not queue those who wait, so
// the write transactions that were begun are ended between two attempts, and others write.
const (
	momentWait     = 250 * time.Millisecond // for one database
	momentPause    = 50 * time.Millisecond
	momentAttempts = 100
)

// beginAlone begins the read transactions while it holds the write transaction of all databases,
// which it ends before it returns. Behind the writers of a [File] of this process it waits in
// their order.
func (m *Moment) beginAlone(ctx context.Context, paths []string) error {
	unlock, err := lockOpen(ctx, paths)
	if err != nil {
		return err
	}
	defer unlock()
	var writers []*sql.DB
	for _, path := range paths {
		writers = append(writers, m.pool(path, fmt.Sprintf("mode=rw&%s_pragma=busy_timeout(%d)&_txlock=immediate", forAll, momentWait.Milliseconds())))
	}
	for attempt := 1; ; attempt++ {
		if err = m.beginHolding(ctx, paths, writers); err == nil || !isBusy(err) || attempt == momentAttempts {
			return err
		}
		select {
		case <-time.After(momentPause):
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// beginHolding begins the read transactions while it holds all write transactions.
func (m *Moment) beginHolding(ctx context.Context, paths []string, writers []*sql.DB) (err error) {
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
		if err := m.beginRead(ctx, path); err != nil {
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

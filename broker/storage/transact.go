package storage

import (
	"context"
	"database/sql"
	"fmt"
)

// Transact runs write as one transaction of a Writer while no other goroutine
// writes, and calls committed, if it is not nil, before others can.
func (f *File) Transact(ctx context.Context, writer *sql.DB, write func(*sql.Tx) error, committed func()) error {
	if err := f.Lock(ctx); err != nil {
		return fmt.Errorf("wait to write: %w", err)
	}
	defer f.Unlock()
	tx, err := writer.BeginTx(ctx, nil)
	if err != nil {
		return fmt.Errorf("begin: %w", err)
	}
	defer tx.Rollback() //nolint:errcheck // does nothing after the commit
	if err := write(tx); err != nil {
		return err
	}
	if err := tx.Commit(); err != nil {
		return fmt.Errorf("commit: %w", err)
	}
	if committed != nil {
		committed()
	}
	return nil
}

// Column reads the rows of a query with one column.
func Column[T any](rows *sql.Rows, err error) (all []T, _ error) {
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	for rows.Next() {
		var v T
		if err := rows.Scan(&v); err != nil {
			return nil, err
		}
		all = append(all, v)
	}
	return all, rows.Err()
}

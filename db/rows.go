package db

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"fmt"
	"time"
)

// scanner is a row to be read: *sql.Row or *sql.Rows.
type scanner interface{ Scan(dest ...any) error }

// queryer is a pool or a transaction.
type queryer interface {
	QueryContext(ctx context.Context, query string, args ...any) (*sql.Rows, error)
	QueryRowContext(ctx context.Context, query string, args ...any) *sql.Row
}

// collect runs a query and scans all of its rows; the slice is never nil.
func collect[T any](ctx context.Context, q queryer, scan func(scanner) (T, error), query string, args ...any) (_ []T, err error) {
	rows, err := q.QueryContext(ctx, query, args...)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, rows.Close()) }()
	all := []T{}
	for rows.Next() {
		v, err := scan(rows)
		if err != nil {
			return nil, err
		}
		all = append(all, v)
	}
	return all, rows.Err()
}

// exists runs a SELECT EXISTS.
func exists(ctx context.Context, q queryer, query string, args ...any) (found bool, err error) {
	err = q.QueryRowContext(ctx, query, args...).Scan(&found)
	return found, err
}

// millis is a time as it is stored: epoch milliseconds, UTC, the zero time as 0.
type millis time.Time

// Value returns the number to store.
func (m millis) Value() (driver.Value, error) {
	t := time.Time(m)
	if t.IsZero() {
		return int64(0), nil
	}
	return t.UnixMilli(), nil
}

// Scan reads a stored number.
func (m *millis) Scan(v any) error {
	n, ok := v.(int64)
	switch {
	case !ok:
		return fmt.Errorf("time stored as %T", v)
	case n == 0:
		*m = millis{}
	default:
		*m = millis(time.UnixMilli(n).UTC())
	}
	return nil
}

// pointReads are the reads of nearly every request, prepared once.
type pointReads struct {
	session, user, role, broker, token, preferences *sql.Stmt
}

func preparePoint(ctx context.Context, ro *sql.DB) (p pointReads, err error) {
	for _, s := range []struct {
		stmt  **sql.Stmt
		query string
	}{
		{&p.session, sessionUserQuery},
		{&p.user, userByIDQuery},
		{&p.role, roleOfQuery},
		{&p.broker, getBrokerQuery},
		{&p.token, tokenByHashQuery},
		{&p.preferences, preferencesQuery},
	} {
		if *s.stmt, err = ro.PrepareContext(ctx, s.query); err != nil {
			return p, errors.Join(fmt.Errorf("prepare reads: %w", err), p.close())
		}
	}
	return p, nil
}

// auditWrites are the statements of every audited change, prepared once for the writer.
type auditWrites struct{ head, add, begin, end *sql.Stmt }

func prepareAudit(ctx context.Context, rw *sql.DB) (w auditWrites, err error) {
	for _, s := range []struct {
		stmt  **sql.Stmt
		query string
	}{{&w.head, auditHeadQuery}, {&w.add, addAuditQuery}, {&w.begin, beginAuditQuery}, {&w.end, endAuditQuery}} {
		if *s.stmt, err = rw.PrepareContext(ctx, s.query); err != nil {
			return w, errors.Join(fmt.Errorf("prepare the audit log: %w", err), w.close())
		}
	}
	return w, nil
}

func (w auditWrites) close() (err error) {
	for _, s := range []*sql.Stmt{w.head, w.add, w.begin, w.end} {
		if s != nil {
			err = errors.Join(err, s.Close())
		}
	}
	return err
}

// pointRow runs a prepared read of one row. It takes microseconds, less than the
// goroutines that would watch over a context that can end, so such a context is
// asked only before.
func pointRow(ctx context.Context, s *sql.Stmt, args ...any) *sql.Row {
	if ctx.Err() == nil {
		ctx = context.WithoutCancel(ctx)
	}
	return s.QueryRowContext(ctx, args...)
}

func (p pointReads) close() (err error) {
	for _, s := range []*sql.Stmt{p.session, p.user, p.role, p.broker, p.token, p.preferences} {
		if s != nil {
			err = errors.Join(err, s.Close())
		}
	}
	return err
}

// microseconds returns a stored duration.
func microseconds(n int64) time.Duration { return time.Duration(n) * time.Microsecond }

package db

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"fmt"
)

// writeTx is a transaction that writes. In a database that is shared it records the statements
// that change something.
type writeTx struct {
	tx       *sql.Tx
	recorded *recording // nil if the database is not shared
}

// ExecContext executes a statement that writes.
func (t *writeTx) ExecContext(ctx context.Context, query string, args ...any) (sql.Result, error) {
	if t.recorded == nil {
		return t.tx.ExecContext(ctx, query, args...)
	}
	return t.recorded.exec(query, args, func(values []any) (sql.Result, error) { return t.tx.ExecContext(ctx, query, values...) })
}

// QueryContext executes a statement that only reads.
func (t *writeTx) QueryContext(ctx context.Context, query string, args ...any) (*sql.Rows, error) {
	return t.tx.QueryContext(ctx, query, args...)
}

// QueryRowContext executes a statement that only reads.
func (t *writeTx) QueryRowContext(ctx context.Context, query string, args ...any) *sql.Row {
	return t.tx.QueryRowContext(ctx, query, args...)
}

// prepared returns a statement of the writer, whose text is query, in this transaction.
func (t *writeTx) prepared(ctx context.Context, s *sql.Stmt, query string) writeStmt {
	return writeStmt{stmt: t.tx.StmtContext(ctx, s), query: query, recorded: t.recorded}
}

// writeStmt is a prepared statement in a writeTx.
type writeStmt struct {
	stmt     *sql.Stmt
	query    string
	recorded *recording
}

// ExecContext executes the statement.
func (s writeStmt) ExecContext(ctx context.Context, args ...any) (sql.Result, error) {
	if s.recorded == nil {
		return s.stmt.ExecContext(ctx, args...)
	}
	return s.recorded.exec(s.query, args, func(values []any) (sql.Result, error) { return s.stmt.ExecContext(ctx, values...) })
}

// recording is what a transaction has changed.
type recording struct {
	statements []statement
	size       int // of the texts and arguments, in bytes
}

// statement is a statement that was executed. Its arguments are nil, int64, string or []byte.
type statement struct {
	text    string
	args    []any
	changes int64 // how many rows it has changed, without those that followed by foreign keys
}

// exec executes a statement and records it, unless it changed nothing: on the same content it
// changes nothing anywhere. The arguments that are executed are those that are recorded.
func (r *recording) exec(text string, args []any, run func([]any) (sql.Result, error)) (sql.Result, error) {
	values := make([]any, len(args))
	size := len(text)
	for i, arg := range args {
		v, err := recordable(arg)
		if err != nil {
			return nil, fmt.Errorf("argument %d: %w", i+1, err)
		}
		values[i] = v
		size += sizeOf(v)
	}
	res, err := run(values)
	if err != nil {
		return nil, err
	}
	n, err := res.RowsAffected()
	if err != nil {
		return nil, err
	}
	if n > 0 {
		r.statements = append(r.statements, statement{text: text, args: values, changes: n})
		r.size += size
	}
	return res, nil
}

// recordable returns an argument as database/sql hands it to the driver.
func recordable(arg any) (any, error) {
	v, err := driver.DefaultParameterConverter.ConvertValue(arg)
	if err != nil {
		return nil, err
	}
	switch v := v.(type) {
	case nil, int64, string:
		return v, nil
	case []byte:
		if v == nil { // SQLite's driver stores it as NULL
			return nil, nil
		}
		return v, nil
	case bool:
		if v {
			return int64(1), nil
		}
		return int64(0), nil
	}
	return nil, fmt.Errorf("values of type %T cannot be shared", v)
}

func sizeOf(v any) int {
	switch v := v.(type) {
	case string:
		return len(v)
	case []byte:
		return len(v)
	}
	return 10
}

// errShared means that the database became shared before a local transaction began.
var errShared = errors.New("the database is shared")

// transact runs fn in a transaction and returns when that is durable: here, or where the database
// is shared, in the log and here. In the latter case fn may run several times.
func (d *DB) transact(ctx context.Context, fn func(*writeTx) error) error {
	for {
		if s := d.sharing.Load(); s != nil {
			return s.write(ctx, fn)
		}
		err := transact(ctx, d.rw, nil, func(tx *sql.Tx) error {
			// Share and Unshare hold the connection of the writer.
			if d.sharing.Load() != nil {
				return errShared
			}
			if d.applied.Load() > 0 {
				return fmt.Errorf("%w: the database is shared by the nodes of a cluster, and can be changed only while this node takes part in it", ErrUnavailable)
			}
			return fn(&writeTx{tx: tx})
		})
		if !errors.Is(err, errShared) {
			return err
		}
	}
}

// writeLocal runs fn in a transaction that changes tables that are not shared.
func (d *DB) writeLocal(ctx context.Context, what string, fn func(*sql.Tx) error) error {
	err := transact(ctx, d.rw, nil, fn)
	d.noteFailure(err)
	return wrap(what, err)
}

func transact(ctx context.Context, pool interface {
	BeginTx(ctx context.Context, opts *sql.TxOptions) (*sql.Tx, error)
}, opts *sql.TxOptions, fn func(*sql.Tx) error) error {
	tx, err := pool.BeginTx(ctx, opts)
	if err != nil {
		return err
	}
	defer tx.Rollback()
	if err := fn(tx); err != nil {
		return err
	}
	if err := tx.Commit(); err != nil {
		// The context ended first, and database/sql rolled back.
		if errors.Is(err, sql.ErrTxDone) {
			return context.Cause(ctx)
		}
		return err
	}
	return nil
}

package store

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"fmt"

	"signalbox/broker/file"
)

// disk is one connection to broker.db that is never given back, with prepared
// statements of the driver's own: what database/sql does for each call costs
// more than many of them. Only Load and, from then on, the committer use it.
type disk struct {
	file *file.File
	db   *sql.DB
	conn *sql.Conn
	raw  driver.ExecerContext // behind conn
	stmt [statements]driver.StmtExecContext
	args []driver.NamedValue
}

// openDisk connects to a file and prepares all statements.
func openDisk(ctx context.Context, f *file.File, d file.Durability) (*disk, error) {
	k := &disk{file: f, db: f.Writer(d)}
	var err error
	if k.conn, err = k.db.Conn(ctx); err != nil {
		return nil, errors.Join(err, k.db.Close())
	}
	if err := k.conn.Raw(k.prepare); err != nil {
		return nil, errors.Join(err, k.close())
	}
	return k, nil
}

func (k *disk) prepare(conn any) error {
	k.raw = conn.(driver.ExecerContext)
	for i, text := range texts {
		stmt, err := conn.(driver.Conn).Prepare(text)
		if err != nil {
			return fmt.Errorf("prepare %q: %w", text, err)
		}
		k.stmt[i] = stmt.(driver.StmtExecContext)
	}
	return nil
}

// transact runs write between BEGIN and COMMIT while nobody else writes. After
// an error nothing of it has happened.
func (k *disk) transact(ctx context.Context, write func() error) error {
	return k.alone(ctx, func() error {
		if err := k.exec(begin); err != nil {
			return fmt.Errorf("begin: %w", err)
		}
		err := write()
		if err == nil {
			if err = k.exec(commit); err == nil {
				return nil
			}
			err = fmt.Errorf("commit: %w", err)
		}
		k.exec(rollback) //nolint:errcheck // most errors have ended the transaction already
		return err
	})
}

// alone runs f with the connection while nobody else writes.
func (k *disk) alone(ctx context.Context, f func() error) error {
	if err := k.file.Lock(ctx); err != nil {
		return fmt.Errorf("wait to write: %w", err)
	}
	defer k.file.Unlock()
	return k.conn.Raw(func(any) error { return f() })
}

// exec runs a prepared statement within alone. Integers must be int64.
func (k *disk) exec(s statement, values ...driver.Value) error {
	k.args = k.args[:0]
	for i, v := range values {
		k.args = append(k.args, driver.NamedValue{Ordinal: i + 1, Value: v})
	}
	_, err := k.stmt[s].ExecContext(context.Background(), k.args)
	return err
}

// run runs a statement that is needed rarely within alone.
func (k *disk) run(text string) error {
	_, err := k.raw.ExecContext(context.Background(), text, nil)
	return err
}

// close gives up the connection; the file stays.
func (k *disk) close() error {
	finalized := k.conn.Raw(func(any) (err error) {
		for _, s := range k.stmt {
			if s != nil {
				err = errors.Join(err, s.(driver.Stmt).Close())
			}
		}
		return err
	})
	return errors.Join(finalized, k.conn.Close(), k.db.Close())
}

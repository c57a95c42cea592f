package storage

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"fmt"
	"io"
)

// Conn is a dedicated connection that writes, with prepared statements of the
// driver: what database/sql adds to each call costs more than many of the
// statements. It must not be used by two goroutines at once.
type Conn struct {
	file  *File
	db    *sql.DB
	conn  *sql.Conn
	level Durability
	raw   driver.ExecerContext // of conn
	stmts []stmt               // those of the caller, then the transaction's
	args  []driver.NamedValue
}

// stmt is the part of a driver's statement that is used.
type stmt interface {
	driver.Stmt
	driver.StmtExecContext
	driver.StmtQueryContext
}

// The statements of a transaction, with their indexes.
var transaction = []string{`BEGIN IMMEDIATE`, `COMMIT`, `ROLLBACK`}

const begin, commit, rollback = 0, 1, 2

// Tx is a transaction of a Conn. It is valid until the function that Transact
// runs returns.
type Tx struct{ conn *Conn }

// Connect opens a connection and prepares statements, which a Tx addresses by
// their index in texts. It must be closed before the file.
func (f *File) Connect(ctx context.Context, d Durability, texts []string) (*Conn, error) {
	c := &Conn{file: f, db: f.Writer(d), level: d}
	var err error
	if c.conn, err = c.db.Conn(ctx); err != nil {
		return nil, errors.Join(err, c.db.Close())
	}
	if err := c.conn.Raw(func(conn any) error { return c.prepare(conn, texts) }); err != nil {
		return nil, errors.Join(err, c.Close())
	}
	return c, nil
}

func (c *Conn) prepare(conn any, texts []string) error {
	c.raw = conn.(driver.ExecerContext)
	for _, list := range [][]string{texts, transaction} {
		for _, text := range list {
			s, err := conn.(driver.Conn).Prepare(text)
			if err != nil {
				return fmt.Errorf("prepare %q: %w", text, err)
			}
			c.stmts = append(c.stmts, s.(stmt))
		}
	}
	return nil
}

// File returns the file that the connection writes to.
func (c *Conn) File() *File { return c.file }

// SQL returns the connection for rare statements outside of Transact.
func (c *Conn) SQL() *sql.Conn { return c.conn }

// SetDurability sets the durability of the transactions from now on. With Full,
// earlier commits are durable as soon as the next one is. It must be called
// outside of Transact.
func (c *Conn) SetDurability(d Durability) error {
	if d == c.level {
		return nil
	}
	if err := c.conn.Raw(func(any) error { return c.run(d.pragma()) }); err != nil {
		return fmt.Errorf("set how durable transactions are: %w", err)
	}
	c.level = d
	return nil
}

// Durability returns the current durability of transactions.
func (c *Conn) Durability() Durability { return c.level }

// ProbeBytes is how much must fit on the disk for the file to count as
// writable.
const ProbeBytes = 256 << 10

// probe checks that the file can be written to and can grow: it stores
// ProbeBytes with the statement insert and deletes them with remove, which also
// deletes the remains of an earlier attempt. Both are indexes of prepared
// statements.
func (c *Conn) probe(ctx context.Context, insert, remove int) error {
	err := c.Transact(ctx, func(tx Tx) error {
		if err := tx.Exec(remove); err != nil {
			return err
		}
		return tx.Exec(insert, int64(ProbeBytes))
	})
	if err != nil {
		return err
	}
	return c.Transact(ctx, func(tx Tx) error { return tx.Exec(remove) })
}

// Transact runs write between BEGIN and COMMIT while no other goroutine writes.
// After an error the transaction was rolled back.
func (c *Conn) Transact(ctx context.Context, write func(Tx) error) error {
	return c.exclusively(ctx, func() error {
		if err := c.execOwn(begin); err != nil {
			return fmt.Errorf("begin: %w", err)
		}
		err := write(Tx{c})
		if err == nil {
			if err = c.execOwn(commit); err == nil {
				return nil
			}
			err = fmt.Errorf("commit: %w", err)
		}
		c.execOwn(rollback) //nolint:errcheck // most errors have ended the transaction already
		return err
	})
}

// exclusively runs f with the connection while no other goroutine writes.
func (c *Conn) exclusively(ctx context.Context, f func() error) error {
	if err := c.file.Lock(ctx); err != nil {
		return fmt.Errorf("wait to write: %w", err)
	}
	defer c.file.Unlock()
	return c.conn.Raw(func(any) error { return f() })
}

// execOwn runs a statement of transaction.
func (c *Conn) execOwn(s int) error {
	return Tx{c}.Exec(len(c.stmts) - len(transaction) + s)
}

// run runs a statement that is not prepared. The connection must not be in use.
func (c *Conn) run(text string) error {
	_, err := c.raw.ExecContext(context.Background(), text, nil)
	return err
}

// Exec runs a prepared statement. Integers must be int64.
func (t Tx) Exec(s int, values ...driver.Value) error {
	_, err := t.conn.stmts[s].ExecContext(context.Background(), t.conn.named(values))
	return err
}

// Run runs a rare statement.
func (t Tx) Run(text string) error { return t.conn.run(text) }

// Query runs a prepared statement and calls f for each row. The row must have a
// value for each column; its values are overwritten by the next row.
func (t Tx) Query(s int, row []driver.Value, f func() error, values ...driver.Value) (err error) {
	rows, err := t.conn.stmts[s].QueryContext(context.Background(), t.conn.named(values))
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, rows.Close()) }()
	for {
		if err := rows.Next(row); errors.Is(err, io.EOF) {
			return nil
		} else if err != nil {
			return err
		}
		if err := f(); err != nil {
			return err
		}
	}
}

func (c *Conn) named(values []driver.Value) []driver.NamedValue {
	c.args = c.args[:0]
	for i, v := range values {
		c.args = append(c.args, driver.NamedValue{Ordinal: i + 1, Value: v})
	}
	return c.args
}

// Close closes the connection, but not the file.
func (c *Conn) Close() error {
	finalized := c.conn.Raw(func(any) (err error) {
		for _, s := range c.stmts {
			err = errors.Join(err, s.Close())
		}
		return err
	})
	return errors.Join(finalized, c.conn.Close(), c.db.Close())
}

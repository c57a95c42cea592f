package storage

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"fmt"
	"io"
)

// Conn is one connection that writes and is never given back, with statements of
// the driver's own that stay prepared: what database/sql does for each call costs
// more than many of them. One goroutine uses it at a time.
type Conn struct {
	file  *File
	db    *sql.DB
	conn  *sql.Conn
	level Durability
	raw   driver.ExecerContext // behind conn
	stmts []stmt               // the caller's, and behind them our own
	args  []driver.NamedValue
}

// stmt is what a statement of the driver can do.
type stmt interface {
	driver.Stmt
	driver.StmtExecContext
	driver.StmtQueryContext
}

// Our own statements, in order.
var transaction = []string{`BEGIN IMMEDIATE`, `COMMIT`, `ROLLBACK`}

const begin, commit, rollback = 0, 1, 2

// Connect makes a connection and prepares statements, which Exec and Query take
// by their place in texts. It is closed before the file.
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

// File gives the file that is written to.
func (c *Conn) File() *File { return c.file }

// SQL gives the connection for what is done rarely, outside of Transact.
func (c *Conn) SQL() *sql.Conn { return c.conn }

// SetDurability has transactions be as durable as that from now on. With Full, so
// is what was committed before, as soon as the next one is. It is called outside
// of Transact.
func (c *Conn) SetDurability(d Durability) error {
	if d == c.level {
		return nil
	}
	if err := c.conn.Raw(func(any) error { return c.Run(d.pragma()) }); err != nil {
		return fmt.Errorf("set how durable transactions are: %w", err)
	}
	c.level = d
	return nil
}

// Durability returns how durable transactions are now.
func (c *Conn) Durability() Durability { return c.level }

// ProbeBytes is how much must fit onto the disk before it counts as writable.
const ProbeBytes = 256 << 10

// Probe tries whether the file can be written to and grow: it stores ProbeBytes with
// the statement fill and deletes them with drain, which also deletes what an earlier
// attempt left behind. Both are places of prepared statements.
func (c *Conn) Probe(ctx context.Context, fill, drain int) error {
	err := c.Transact(ctx, func() error {
		if err := c.Exec(drain); err != nil {
			return err
		}
		return c.Exec(fill, int64(ProbeBytes))
	})
	if err != nil {
		return err
	}
	return c.Transact(ctx, func() error { return c.Exec(drain) })
}

// Transact runs write between BEGIN and COMMIT while no other goroutine writes. After
// an error nothing of it has happened.
func (c *Conn) Transact(ctx context.Context, write func() error) error {
	return c.alone(ctx, func() error {
		if err := c.own(begin); err != nil {
			return fmt.Errorf("begin: %w", err)
		}
		err := write()
		if err == nil {
			if err = c.own(commit); err == nil {
				return nil
			}
			err = fmt.Errorf("commit: %w", err)
		}
		c.own(rollback) //nolint:errcheck // most errors have ended the transaction already
		return err
	})
}

// alone runs f with the connection while no other goroutine writes.
func (c *Conn) alone(ctx context.Context, f func() error) error {
	if err := c.file.Lock(ctx); err != nil {
		return fmt.Errorf("wait to write: %w", err)
	}
	defer c.file.Unlock()
	return c.conn.Raw(func(any) error { return f() })
}

// own runs one of our own statements.
func (c *Conn) own(s int) error {
	return c.Exec(len(c.stmts) - len(transaction) + s)
}

// Exec runs a prepared statement within Transact. Integers must be int64.
func (c *Conn) Exec(s int, values ...driver.Value) error {
	_, err := c.stmts[s].ExecContext(context.Background(), c.named(values))
	return err
}

// Run runs a statement that is needed rarely, within Transact.
func (c *Conn) Run(text string) error {
	_, err := c.raw.ExecContext(context.Background(), text, nil)
	return err
}

// Query runs a prepared statement within Transact and calls f with each row, of
// as many columns as row has places, which are filled anew each time.
func (c *Conn) Query(s int, row []driver.Value, f func() error, values ...driver.Value) (err error) {
	rows, err := c.stmts[s].QueryContext(context.Background(), c.named(values))
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

// Close gives up the connection; the file stays.
func (c *Conn) Close() error {
	finalized := c.conn.Raw(func(any) (err error) {
		for _, s := range c.stmts {
			err = errors.Join(err, s.Close())
		}
		return err
	})
	return errors.Join(finalized, c.conn.Close(), c.db.Close())
}

// Package sql is the kind of bridge that inserts messages as rows into the tables of
// a relational database: PostgreSQL and what speaks like it, MySQL and MariaDB.
//
// DESIGN.md tells what a row is made of, and what becomes of one that the database
// does not take. It must not import the stores of bridges nor another kind.
package sql

import (
	"context"
	_ "embed"
	"errors"

	"signalbox/broker/bridges"
	"signalbox/broker/bridges/reach"
)

var (
	//go:embed connection.json
	connectionSchema []byte
	//go:embed mapping.json
	mappingSchema []byte
)

// Kind is the sql-bridge.
type Kind struct{}

// ID is "sql-bridge".
func (Kind) ID() string { return "sql-bridge" }

// Schema gives what is particular to databases in the configuration.
func (Kind) Schema() bridges.Schema {
	return bridges.Schema{
		Title:       "SQL",
		Description: "Inserts messages as rows into tables of PostgreSQL, TimescaleDB, CockroachDB, MySQL or MariaDB.",
		Connection:  connectionSchema,
		Mapping:     mappingSchema,
		Records:     true,
	}
}

// session is an open connection to a database.
type session interface {
	// look tells what a table is like, nil where there is none.
	look(ctx context.Context, t table) (*shape, error)
	// insert inserts rows, in the order of each group: all of them durably, or none.
	insert(ctx context.Context, groups []group) error
	// ping asks whether the database is there.
	ping(ctx context.Context) error
	// judge tells what an error of insert, look or ping is about, and a sentence for
	// an operator. Groups are what was to be inserted, if something was.
	judge(err error, groups []group) (fault, string)
	// abandoned returns what may go on at the server when the session is closed, nil
	// where nothing does.
	abandoned() *abandoned
	// end ends what another session left, and returns once it has ended.
	end(ctx context.Context, a abandoned) error
	close(ctx context.Context) error
}

// group are rows of one topic mapping.
type group struct {
	plan *plan
	rows [][]any // a value for each column: string, []byte, bool, int64, time.Time, or nil for NULL
}

// fault is what an error is about.
type fault int

const (
	ofDatabase   fault = iota // the database cannot now, but may later
	ofConnection              // there is none any more, or the tables are to be looked at again
	ofRow                     // a row will never be taken
)

// connector is a connection to a database.
type connector struct {
	open    func(ctx context.Context) (session, error)
	plans   map[string]*plan // by topic mapping
	session session          // nil where there is none
	left    *abandoned       // by an earlier session; nil where nothing is
}

// Connect connects to the database and looks whether it has what is written to.
func (c *connector) Connect(ctx context.Context) error {
	c.drop(ctx)
	s, err := c.open(ctx)
	if err != nil {
		return err
	}
	err = c.endAbandoned(ctx, s)
	if err == nil {
		err = c.prepare(ctx, s)
	}
	if err != nil {
		s.close(ctx) //nolint:errcheck // why it is given up is told
		return err
	}
	c.session = s
	return nil
}

// Check tells whether the database is there.
func (c *connector) Check(ctx context.Context) error {
	if c.session == nil {
		return &bridges.Lost{Err: errNotConnected}
	}
	if err := c.session.ping(ctx); err != nil {
		_, why := c.session.judge(err, nil)
		return &bridges.Lost{Err: reach.Explained(err, why)}
	}
	return nil
}

// Close ends the connection, and what it may have left at the server.
func (c *connector) Close(ctx context.Context) error {
	c.drop(ctx)
	if c.left == nil {
		return nil
	}
	s, err := c.open(ctx)
	if err != nil {
		return err
	}
	return errors.Join(c.endAbandoned(ctx, s), s.close(ctx))
}

// drop gives up the connection. What it still had to say does not matter.
func (c *connector) drop(ctx context.Context) {
	if c.session != nil {
		if a := c.session.abandoned(); a != nil {
			c.left = a
		}
		c.session.close(ctx) //nolint:errcheck // it may be broken
		c.session = nil
	}
}

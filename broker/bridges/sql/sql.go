// Package sql is the kind of bridge that inserts messages as rows into the tables of a relational
// database: PostgreSQL and compatible databases, MySQL and MariaDB.
//
// DESIGN.md describes how rows are made from messages and what happens to a row that the database
// rejects. The package must not import the stores of bridges or another kind.
package sql

import (
	"context"
	_ "embed"
	"errors"

	"signalbox/broker/bridges"
	"signalbox/broker/bridges/target"
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

// Schema returns the configuration schema that is specific to databases.
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
	// readTableSchema returns the columns of a table, nil if it does not exist.
	readTableSchema(ctx context.Context, t table) (*tableSchema, error)
	// insert inserts rows, in the order of each group: all of them durably, or none.
	insert(ctx context.Context, groups []group) error
	// ping checks the connection with a round trip.
	ping(ctx context.Context) error
	// classifyError classifies an error of insert, readTableSchema or ping and returns a text for
	// an operator. Groups are the rows that were being inserted, if any.
	classifyError(err error, groups []group) (errorClass, string)
	// abandoned returns the session if the server may go on working for it after it is closed,
	// otherwise nil.
	abandoned() *abandoned
	// end ends an abandoned session and returns when it has ended.
	end(ctx context.Context, a abandoned) error
	close(ctx context.Context) error
}

// group is the rows of one topic mapping.
type group struct {
	plan *plan
	rows [][]any // one value per column: string, []byte, bool, int64, time.Time, or nil for NULL
}

// errorClass classifies an error.
type errorClass int

const (
	classDatabase   errorClass = iota // the database cannot execute it now, but may later
	classConnection                   // the connection is lost, or the tables must be read again
	classRow                          // the database will never accept a row
)

// connector is a connection to a database.
type connector struct {
	open     func(ctx context.Context) (session, error)
	plans    map[string]*plan // by topic mapping
	session  session          // nil while not connected
	leftover *abandoned       // an earlier session that may still be working at the server; nil for none
}

// Connect connects to the database and checks the tables that rows are inserted into.
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
		s.close(ctx) //nolint:errcheck // the first error is returned
		return err
	}
	c.session = s
	return nil
}

// Check reports an error if the database does not respond.
func (c *connector) Check(ctx context.Context) error {
	if c.session == nil {
		return &bridges.Lost{Err: errNotConnected}
	}
	if err := c.session.ping(ctx); err != nil {
		_, why := c.session.classifyError(err, nil)
		return &bridges.Lost{Err: target.Explain(err, why)}
	}
	return nil
}

// Close closes the connection, and ends an abandoned session at the server.
func (c *connector) Close(ctx context.Context) error {
	c.drop(ctx)
	if c.leftover == nil {
		return nil
	}
	s, err := c.open(ctx)
	if err != nil {
		return err
	}
	return errors.Join(c.endAbandoned(ctx, s), s.close(ctx))
}

// drop closes the connection. Its errors do not matter.
func (c *connector) drop(ctx context.Context) {
	if c.session != nil {
		if a := c.session.abandoned(); a != nil {
			c.leftover = a
		}
		c.session.close(ctx) //nolint:errcheck // it may be broken
		c.session = nil
	}
}

package sql

import (
	"errors"
	"fmt"
	"slices"

	"github.com/jackc/pgx/v5/pgconn"

	"signalbox/broker/bridges/reach"
)

// postgresUnreached explains why PostgreSQL refused the connection.
func postgresUnreached(e *endpoint, err error) error {
	var said *pgconn.PgError
	if !errors.As(err, &said) {
		return unreached(e, err)
	}
	why := "it refuses (" + state(said) + ")"
	switch said.Code {
	case "28P01":
		why = fmt.Sprintf("user name or password of %q is wrong", e.username)
	case "28000":
		why = fmt.Sprintf("it does not let the user %q in from here: check the user name, and the server's pg_hba.conf", e.username)
	case "3D000":
		why = fmt.Sprintf("it has no database %q: create it, or change the name", e.database)
	case "42501":
		why = fmt.Sprintf("the user %q may not connect to the database %q: grant CONNECT", e.username, e.database)
	case "53300":
		why = "it has as many connections as it allows: raise max_connections, or close others"
	case "57P03":
		why = "it is starting or stopping"
	}
	return reach.Explained(err, fmt.Sprintf("cannot connect to the database at %s: %s", e.address(), why))
}

// postgresFaults classifies codes and classes of codes. Others are errors of the database.
var postgresFaults = map[string]fault{
	"22": ofRow, // data exceptions
	"23": ofRow, // integrity constraints
	"44": ofRow, // views with check options
	"54": ofRow, // limits, such as the size of an index entry
	"P0": ofRow, // RAISE in a trigger

	"08": ofConnection,
	"28": ofConnection,
	"3F": ofConnection, // no such schema
	"42": ofConnection, // undefined objects, privileges: the tables must be read again
	"0A": ofConnection, // occurs when types changed

	"2200H": ofDatabase, // a sequence is exhausted

	"25006": ofConnection, // read-only; the host may lead to another server by now
	"57P01": ofConnection,
	"57P02": ofConnection,
	"57P03": ofConnection,
}

// postgresAdvice has texts for errors that may pass, with what to do about them.
var postgresAdvice = map[string]string{
	"2200H": "the database has no numbers left for a column: alter its sequence",
	"25006": "the database takes no changes at present, it is a standby or set to be read-only",
	"53100": "the database has no room on its disk: make some",
	"53200": "the database has no memory left",
	"40001": "the database broke the transaction off because of another one; it is tried again",
	"40P01": "the database broke the transaction off because another one waited for it; it is tried again",
	"55P03": "the database did not get a lock in time, as another transaction has it; it is tried again",
	"57014": "the database took too long: raise the connection's options.timeout (or the user's statement_timeout), or lower batchSize; it is tried again",
	"57P01": "the database was stopped",
	"57P02": "the database ended after a failure",
	"57P03": "the database is starting or stopping",
	"42501": "the database does not let the user do this: grant INSERT",
}

// judge implements session.
func (s *postgres) judge(err error, groups []group) (fault, string) {
	var said *pgconn.PgError
	if !errors.As(err, &said) {
		return ofConnection, broken(err)
	}
	why := "the database refuses (" + state(said) + ")"
	if advice, ok := postgresAdvice[said.Code]; ok {
		why = advice + " (" + state(said) + ")"
	}
	about, known := postgresFaults[said.Code]
	if !known && len(said.Code) == 5 {
		about = postgresFaults[said.Code[:2]]
	}
	switch {
	case s.conn.IsClosed():
		about = ofConnection
	case said.Code == "42501" && said.Routine == "ExecWithCheckOptions":
		about, why = ofRow, "the database refuses by a policy for rows ("+state(said)+")"
	case about == ofRow && said.Code == "23502" && lacks(groups, said):
		about = ofConnection // a required column without a value in any row
	}
	return about, why
}

// state returns the SQLSTATE of an error. The message is the server's own, see [reach.Answer].
func state(said *pgconn.PgError) string { return "SQLSTATE " + reach.Excerpt(said.Code, 5) }

// lacks reports whether the column of a not-null violation is in one of the tables that are
// inserted into and is not among the plan's columns. Otherwise the violation may come from a
// table that a trigger fills.
func lacks(groups []group, said *pgconn.PgError) bool {
	ours := false
	for _, g := range groups {
		if g.plan.table.name != said.TableName {
			continue
		}
		ours = true
		if slices.ContainsFunc(g.plan.columns, func(c column) bool { return c.name == said.ColumnName }) {
			return false
		}
	}
	return ours && said.ColumnName != ""
}

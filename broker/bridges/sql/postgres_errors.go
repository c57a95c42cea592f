package sql

import (
	"errors"
	"fmt"
	"slices"

	"github.com/jackc/pgx/v5/pgconn"

	"signalbox/broker/bridges/target"
)

// postgresConnectError explains why PostgreSQL refused the connection.
func postgresConnectError(e *endpoint, err error) error {
	var dbErr *pgconn.PgError
	if !errors.As(err, &dbErr) {
		return connectError(e, err)
	}
	why := "it refuses (" + sqlState(dbErr) + ")"
	switch dbErr.Code {
	case "28P01":
		why = fmt.Sprintf("user name or password of %q is wrong", e.username)
	case "28000":
		why = fmt.Sprintf("it does not accept the user %q from this host: check the user name, and the server's pg_hba.conf", e.username)
	case "3D000":
		why = fmt.Sprintf("it has no database %q: create it, or change the name", e.database)
	case "42501":
		why = fmt.Sprintf("the user %q may not connect to the database %q: grant CONNECT", e.username, e.database)
	case "53300":
		why = "it has as many connections as it allows: raise max_connections, or close others"
	case "57P03":
		why = "it is starting or stopping"
	}
	return target.Explain(err, fmt.Sprintf("cannot connect to the database at %s: %s", e.address(), why))
}

// postgresErrorClasses classifies codes and classes of codes. Others are errors of the database.
var postgresErrorClasses = map[string]errorClass{
	"22": classRow, // data exceptions
	"23": classRow, // integrity constraints
	"44": classRow, // views with check options
	"54": classRow, // limits, such as the size of an index entry
	"P0": classRow, // RAISE in a trigger

	"08": classConnection,
	"28": classConnection,
	"3F": classConnection, // no such schema
	"42": classConnection, // undefined objects, privileges: the tables must be read again
	"0A": classConnection, // occurs when types changed

	"2200H": classDatabase, // a sequence is exhausted

	"25006": classConnection, // read-only; the host may lead to another server by now
	"57P01": classConnection,
	"57P02": classConnection,
	"57P03": classConnection,
}

// postgresErrorTexts has texts for errors that may pass, with what to do about them.
var postgresErrorTexts = map[string]string{
	"2200H": "the database has no numbers left for a column: alter its sequence",
	"25006": "the database accepts no changes at present: it is a standby or read-only",
	"53100": "the database's disk is full: free some space",
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

// classifyError implements session.
func (s *postgresSession) classifyError(err error, groups []group) (errorClass, string) {
	var dbErr *pgconn.PgError
	if !errors.As(err, &dbErr) {
		return classConnection, lostReason(err)
	}
	why := "the database refuses (" + sqlState(dbErr) + ")"
	if advice, ok := postgresErrorTexts[dbErr.Code]; ok {
		why = advice + " (" + sqlState(dbErr) + ")"
	}
	class, known := postgresErrorClasses[dbErr.Code]
	if !known && len(dbErr.Code) == 5 {
		class = postgresErrorClasses[dbErr.Code[:2]]
	}
	switch {
	case s.conn.IsClosed():
		class = classConnection
	case dbErr.Code == "42501" && dbErr.Routine == "ExecWithCheckOptions":
		class, why = classRow, "the database refuses by a policy for rows ("+sqlState(dbErr)+")"
	case class == classRow && dbErr.Code == "23502" && missesColumn(groups, dbErr):
		class = classConnection // a required column without a value in any row
	}
	return class, why
}

// sqlState returns the SQLSTATE of an error. The message is the server's own, see [target.Response].
func sqlState(dbErr *pgconn.PgError) string { return "SQLSTATE " + target.Excerpt(dbErr.Code, 5) }

// missesColumn reports whether the column of a not-null violation is in one of the tables that are
// inserted into and is not among the plan's columns. Otherwise the violation may come from a
// table that a trigger fills.
func missesColumn(groups []group, dbErr *pgconn.PgError) bool {
	found := false
	for _, g := range groups {
		if g.plan.table.name != dbErr.TableName {
			continue
		}
		found = true
		if slices.ContainsFunc(g.plan.columns, func(c column) bool { return c.name == dbErr.ColumnName }) {
			return false
		}
	}
	return found && dbErr.ColumnName != ""
}

package sql

import (
	"errors"
	"fmt"

	"github.com/go-sql-driver/mysql"

	"signalbox/broker/bridges/target"
)

// mySQLConnectError explains why MySQL refused the connection.
func mySQLConnectError(e *endpoint, err error) error {
	var dbErr *mysql.MySQLError
	if !errors.As(err, &dbErr) {
		return connectError(e, driverError(err))
	}
	why := "it refuses (" + errorNumber(dbErr) + ")"
	switch dbErr.Number {
	case 1045, 1698:
		why = fmt.Sprintf("user name or password of %q is wrong, or it may not connect from here", e.username)
	case 1049:
		why = fmt.Sprintf("it has no database %q: create it, or change the name", e.database)
	case 1044:
		why = fmt.Sprintf("the user %q may not use the database %q: grant it", e.username, e.database)
	case 1130:
		why = "it accepts no connections from this host: check the hosts of its users"
	case 1129:
		why = "it accepts no more connections from this host after too many attempts: FLUSH HOSTS"
	case 1040, 1203, 1226:
		why = "it has as many connections as it allows: raise max_connections, or close others"
	case 1053:
		why = "it is stopping"
	case 3159:
		why = "it demands TLS: switch it on"
	case 1820, 1862:
		why = fmt.Sprintf("the password of %q has expired: set another", e.username)
	}
	return target.Explain(err, fmt.Sprintf("cannot connect to the database at %s: %s", e.address(), why))
}

// driverError explains why the driver refused the connection.
func driverError(err error) error {
	switch {
	case errors.Is(err, mysql.ErrNoTLS):
		return target.Explain(nil, "it offers no TLS: switch it on there, or off here")
	case errors.Is(err, mysql.ErrCleartextPassword):
		return target.Explain(nil, "it requires the password in clear text, which is sent only with TLS and a verified certificate")
	case errors.Is(err, mysql.ErrUnknownPlugin), errors.Is(err, mysql.ErrOldPassword):
		return target.Explain(nil, "it requires an unsupported authentication plugin: configure mysql_native_password, caching_sha2_password or ed25519 for the user")
	}
	return err
}

// mySQLErrorClasses classifies the error numbers whose SQLSTATE is not specific enough.
var mySQLErrorClasses = map[uint16]errorClass{
	1265: classRow, // truncated
	1366: classRow, // invalid value for the type
	1367: classRow,
	1526: classRow, // no partition for the value
	3819: classRow, // check constraint

	1044: classConnection,
	1045: classConnection,
	1049: classConnection,
	1053: classConnection, // shutdown
	1054: classConnection, // no such column
	1142: classConnection, // missing privilege
	1143: classConnection,
	1146: classConnection, // no such table
	1153: classConnection, // max_allowed_packet was lowered
	1290: classConnection, // read-only; the host may lead to another server by now
	1364: classConnection, // a required column without a value in any row
	1792: classConnection,
	1836: classConnection,
	1927: classConnection, // killed
	3105: classConnection, // generated column
}

// mySQLErrorTexts has texts for errors that may pass, with what to do about them.
var mySQLErrorTexts = map[uint16]string{
	1021: "the database's disk is full: free some space",
	1114: "the database has no space for the table: free some",
	1142: "the database does not let the user do this: grant INSERT, and UPDATE where onConflict is ignore",
	1143: "the database does not let the user do this: grant INSERT, and UPDATE where onConflict is ignore",
	1205: "the database did not get a lock in time, as another transaction has it; it is tried again",
	1969: "the database took too long: raise the connection's options.timeout, or lower batchSize; it is tried again",
	1213: "the database broke the transaction off because another one waited for it; it is tried again",
	1290: "the database accepts no changes at present",
	1792: "the database accepts no changes at present",
	1836: "the database accepts no changes at present",
}

// errorNumber returns the number of an error. The message is the server's own, see
// [target.Response].
func errorNumber(dbErr *mysql.MySQLError) string { return fmt.Sprintf("error %d", dbErr.Number) }

// classifyError implements session.
func (s *mySQLSession) classifyError(err error, _ []group) (errorClass, string) {
	if errors.Is(err, errRowTooLong) || errors.Is(err, mysql.ErrPktTooLarge) {
		return classRow, "the row is longer than the database accepts: raise its max_allowed_packet"
	}
	var dbErr *mysql.MySQLError
	if !errors.As(err, &dbErr) {
		return classConnection, lostReason(err)
	}
	why := "the database refuses (" + errorNumber(dbErr) + ")"
	if advice, ok := mySQLErrorTexts[dbErr.Number]; ok {
		why = advice + " (" + errorNumber(dbErr) + ")"
	}
	class, known := mySQLErrorClasses[dbErr.Number]
	if !known {
		switch string(dbErr.SQLState[:2]) {
		case "22", "23", "45": // data, constraints, SIGNAL of a trigger
			class = classRow
		case "08", "28":
			class = classConnection
		}
	}
	return class, why
}

package sql

import (
	"errors"
	"fmt"

	"github.com/go-sql-driver/mysql"

	"signalbox/broker/bridges/reach"
)

// myUnreached explains why MySQL refused the connection.
func myUnreached(e *endpoint, err error) error {
	var said *mysql.MySQLError
	if !errors.As(err, &said) {
		return unreached(e, myOwn(err))
	}
	why := "it refuses (" + errorNumber(said) + ")"
	switch said.Number {
	case 1045, 1698:
		why = fmt.Sprintf("user name or password of %q is wrong, or it may not connect from here", e.username)
	case 1049:
		why = fmt.Sprintf("it has no database %q: create it, or change the name", e.database)
	case 1044:
		why = fmt.Sprintf("the user %q may not use the database %q: grant it", e.username, e.database)
	case 1130:
		why = "it lets nobody in from here: check the hosts of its users"
	case 1129:
		why = "it lets nobody in from here any more after too many attempts: FLUSH HOSTS"
	case 1040, 1203, 1226:
		why = "it has as many connections as it allows: raise max_connections, or close others"
	case 1053:
		why = "it is stopping"
	case 3159:
		why = "it demands TLS: switch it on"
	case 1820, 1862:
		why = fmt.Sprintf("the password of %q has expired: set another", e.username)
	}
	return reach.Explained(err, fmt.Sprintf("cannot connect to the database at %s: %s", e.address(), why))
}

// myOwn explains why the driver refused the connection.
func myOwn(err error) error {
	switch {
	case errors.Is(err, mysql.ErrNoTLS):
		return reach.Explained(nil, "it offers no TLS: switch it on there, or off here")
	case errors.Is(err, mysql.ErrCleartextPassword):
		return reach.Explained(nil, "it wants the password as it is, which is sent only with TLS and a certificate that is verified")
	case errors.Is(err, mysql.ErrUnknownPlugin), errors.Is(err, mysql.ErrOldPassword):
		return reach.Explained(nil, "it wants a kind of log-in that is not known here: give the user mysql_native_password, caching_sha2_password or ed25519")
	}
	return err
}

// myFaults classifies the error numbers whose SQLSTATE is not specific enough.
var myFaults = map[uint16]fault{
	1265: ofRow, // truncated
	1366: ofRow, // invalid value for the type
	1367: ofRow,
	1526: ofRow, // no partition for the value
	3819: ofRow, // check constraint

	1044: ofConnection,
	1045: ofConnection,
	1049: ofConnection,
	1053: ofConnection, // shutdown
	1054: ofConnection, // no such column
	1142: ofConnection, // missing privilege
	1143: ofConnection,
	1146: ofConnection, // no such table
	1153: ofConnection, // max_allowed_packet was lowered
	1290: ofConnection, // read-only; the host may lead to another server by now
	1364: ofConnection, // a required column without a value in any row
	1792: ofConnection,
	1836: ofConnection,
	1927: ofConnection, // killed
	3105: ofConnection, // generated column
}

// myAdvice has texts for errors that may pass, with what to do about them.
var myAdvice = map[uint16]string{
	1021: "the database has no room on its disk: make some",
	1114: "the database has no room for the table: make some",
	1142: "the database does not let the user do this: grant INSERT, and UPDATE where onConflict is ignore",
	1143: "the database does not let the user do this: grant INSERT, and UPDATE where onConflict is ignore",
	1205: "the database did not get a lock in time, as another transaction has it; it is tried again",
	1969: "the database took too long: raise the connection's options.timeout, or lower batchSize; it is tried again",
	1213: "the database broke the transaction off because another one waited for it; it is tried again",
	1290: "the database takes no changes at present",
	1792: "the database takes no changes at present",
	1836: "the database takes no changes at present",
}

// errorNumber returns the number of an error. The message is the server's own, see
// [reach.Answer].
func errorNumber(said *mysql.MySQLError) string { return fmt.Sprintf("error %d", said.Number) }

// judge implements session.
func (s *mySession) judge(err error, _ []group) (fault, string) {
	if errors.Is(err, errTooLong) || errors.Is(err, mysql.ErrPktTooLarge) {
		return ofRow, "the row is longer than the database takes: raise its max_allowed_packet"
	}
	var said *mysql.MySQLError
	if !errors.As(err, &said) {
		return ofConnection, broken(err)
	}
	why := "the database refuses (" + errorNumber(said) + ")"
	if advice, ok := myAdvice[said.Number]; ok {
		why = advice + " (" + errorNumber(said) + ")"
	}
	about, known := myFaults[said.Number]
	if !known {
		switch string(said.SQLState[:2]) {
		case "22", "23", "45": // data, constraints, SIGNAL of a trigger
			about = ofRow
		case "08", "28":
			about = ofConnection
		}
	}
	return about, why
}

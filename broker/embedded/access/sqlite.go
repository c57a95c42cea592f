package access

import (
	"errors"

	"modernc.org/sqlite"
	sqlite3 "modernc.org/sqlite/lib"

	"signalbox/broker"
)

// classify turns a failure of the store into one that says what to do.
func classify(err error) error {
	if err == nil {
		return nil
	}
	return &broker.Error{Kind: broker.Internal, Msg: advice(err), Err: err}
}

func advice(err error) string {
	const undone = "; nothing was changed"
	e, ok := errors.AsType[*sqlite.Error](err)
	if !ok {
		return "the change could not be stored" + undone
	}
	switch e.Code() & 0xff { // the primary code of an extended one
	case sqlite3.SQLITE_FULL:
		return "the disk that holds the broker's database is full: free some space and try again" + undone
	case sqlite3.SQLITE_READONLY, sqlite3.SQLITE_CANTOPEN, sqlite3.SQLITE_PERM:
		return "the broker's database cannot be written to: check the permissions of its folder" + undone
	case sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED:
		return "the broker's database is held by another process: stop that one and try again" + undone
	case sqlite3.SQLITE_IOERR:
		return "the disk that holds the broker's database reports an error: check it"
	case sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB:
		return "the broker's database is damaged: stop the service and put back a copy" + undone
	case sqlite3.SQLITE_CONSTRAINT:
		return "the change contradicts what is stored, which is a fault of this program" + undone
	}
	return "the change could not be stored" + undone
}

// named gives a failure the name of the operation that failed, where it has
// none.
func named(err error, op string) error {
	e, ok := errors.AsType[*broker.Error](err)
	if !ok || e.Op != "" {
		return err
	}
	n := *e
	n.Op = op
	return &n
}

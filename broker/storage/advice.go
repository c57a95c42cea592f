package storage

import (
	"cmp"
	"errors"

	"modernc.org/sqlite"
	sqlite3 "modernc.org/sqlite/lib"
)

// primaryCode returns the primary result code of an SQLite error.
func primaryCode(err error) (code int, ok bool) {
	e, ok := errors.AsType[*sqlite.Error](err)
	if !ok {
		return 0, false
	}
	return e.Code() & 0xff, true // without the extended part
}

// Advice returns what an operator can do about an SQLite error, or "" if there
// is nothing. It is a clause without full stop that refers to the file by name.
func Advice(err error, name string) string {
	code, ok := primaryCode(err)
	if !ok {
		return ""
	}
	switch code {
	case sqlite3.SQLITE_FULL:
		return "the disk that holds " + name + " is full: free some space and try again"
	case sqlite3.SQLITE_READONLY, sqlite3.SQLITE_CANTOPEN, sqlite3.SQLITE_PERM:
		return name + " cannot be written to: check the permissions of its folder"
	case sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED:
		return name + " is held by another process: stop that one and try again"
	case sqlite3.SQLITE_IOERR:
		return "the disk that holds " + name + " reports an error: check it"
	case sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB:
		return name + " is damaged: stop the service, put back a copy from a backup, and keep the damaged file until that works"
	}
	if Fault(err) {
		return "the change contradicts what is stored, which is a fault of this program"
	}
	return ""
}

// Failure is the reason why nothing can be stored, as a sentence for an
// operator. The cause is for the log.
type Failure struct {
	sentence string
	cause    error
}

// Failure returns a Failure with the advice about an SQLite error, or with the
// text otherwise if there is no advice.
func (f *File) Failure(err error, otherwise string) *Failure {
	return &Failure{cmp.Or(Advice(err, f.name), otherwise), err}
}

// Error returns the sentence without the cause.
func (f *Failure) Error() string { return f.sentence }

// Unwrap returns the cause.
func (f *Failure) Unwrap() error { return f.cause }

// Unflushed reports whether a failed transaction may nevertheless be visible
// after a crash, because the disk did not confirm what it has stored.
func Unflushed(err error) bool {
	code, ok := primaryCode(err)
	return ok && code == sqlite3.SQLITE_IOERR
}

// Fault reports whether an error is about the data of a change and not about
// the file: the same change will fail again, while others can succeed.
func Fault(err error) bool {
	code, ok := primaryCode(err)
	return ok && (code == sqlite3.SQLITE_CONSTRAINT || code == sqlite3.SQLITE_MISMATCH || code == sqlite3.SQLITE_TOOBIG)
}

package storage

import (
	"cmp"
	"errors"

	"modernc.org/sqlite"
	sqlite3 "modernc.org/sqlite/lib"
)

// primary gives the primary result code of an error of SQLite.
func primary(err error) (code int, ok bool) {
	e, ok := errors.AsType[*sqlite.Error](err)
	if !ok {
		return 0, false
	}
	return e.Code() & 0xff, true // the rest of an extended code
}

// Advice turns an error of SQLite into what an operator can do about it, or ""
// where that is nothing. It is a clause without full stop, in which the file is
// called by its name.
func Advice(err error, name string) string {
	code, ok := primary(err)
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

// Failure says why nothing can be stored, in a sentence for an operator. Its
// cause is for the log.
type Failure struct {
	sentence string
	cause    error
}

// Failure makes one of an error of SQLite: what can be done about it, or
// otherwise where that is nothing.
func (f *File) Failure(err error, otherwise string) *Failure {
	return &Failure{cmp.Or(Advice(err, f.name), otherwise), err}
}

// Error gives the sentence, not the cause.
func (f *Failure) Error() string { return f.sentence }

// Unwrap gives the cause.
func (f *Failure) Unwrap() error { return f.cause }

// Unflushed tells whether a transaction that failed may nevertheless show up
// after a crash, because the disk did not say what it has kept.
func Unflushed(err error) bool {
	code, ok := primary(err)
	return ok && code == sqlite3.SQLITE_IOERR
}

// Fault tells whether an error is about what was to be written, and not about
// the file: the same change will fail again, and another one need not.
func Fault(err error) bool {
	code, ok := primary(err)
	return ok && (code == sqlite3.SQLITE_CONSTRAINT || code == sqlite3.SQLITE_MISMATCH || code == sqlite3.SQLITE_TOOBIG)
}

package db

import (
	"database/sql"
	"errors"
	"fmt"

	"modernc.org/sqlite"
	sqlite3 "modernc.org/sqlite/lib"

	"signalbox/broker/storage"
)

// What a caller can act on. Every method wraps at most one of them.
var (
	// ErrNotFound means that the row, or one that it refers to, does not exist.
	ErrNotFound = errors.New("not found")
	// ErrExists means that an id, e-mail address or hash is taken.
	ErrExists = errors.New("already exists")
	// ErrInUse means that something else still depends on the row.
	ErrInUse = errors.New("still in use")
	// ErrConflict means that the row changed since the caller read it.
	ErrConflict = errors.New("changed meanwhile")
	// ErrLastRoot means that no root administrator would be left.
	ErrLastRoot = errors.New("the last root administrator has to stay")
	// ErrNotAdmin means that the user does not administer the project.
	ErrNotAdmin = errors.New("does not administer the project")
	// ErrTooLarge means that a value would exceed its bound.
	ErrTooLarge = errors.New("too large")
	// ErrUnavailable means that the database is shared, and that its log cannot be written to
	// now. Nothing has changed.
	ErrUnavailable = errors.New("the cluster cannot store it now")
	// ErrUnconfirmed means that the database is shared, and that it is not known whether the
	// change was made, or still will be.
	ErrUnconfirmed = errors.New("the cluster did not confirm the change in time; it may have been made")
	// ErrNewer means that a newer release wrote the file.
	ErrNewer = storage.ErrNewer
	// ErrForeign means that another program wrote the file.
	ErrForeign = storage.ErrForeign
)

// wrap adds what was being done, and replaces err by a sentinel where SQLite's
// code allows it.
func wrap(what string, err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("%s: %w", what, classify(err))
}

func classify(err error) error {
	if errors.Is(err, sql.ErrNoRows) {
		return ErrNotFound
	}
	switch code(err) {
	case sqlite3.SQLITE_CONSTRAINT_UNIQUE, sqlite3.SQLITE_CONSTRAINT_PRIMARYKEY:
		return fmt.Errorf("%w (%w)", ErrExists, err)
	case sqlite3.SQLITE_CONSTRAINT_FOREIGNKEY:
		// Deletions look for dependants first, so this is a missing parent.
		return fmt.Errorf("%w (%w)", ErrNotFound, err)
	}
	return err
}

// storageRefused reports whether the disk, not the statement, was at fault.
func storageRefused(err error) bool {
	switch code(err) & 0xff {
	case sqlite3.SQLITE_FULL, sqlite3.SQLITE_IOERR, sqlite3.SQLITE_READONLY,
		sqlite3.SQLITE_CANTOPEN, sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB:
		return true
	}
	return false
}

// code returns SQLite's extended result code, or 0.
func code(err error) int {
	if e, ok := errors.AsType[*sqlite.Error](err); ok {
		return e.Code()
	}
	return 0
}

// affected turns "no row matched" into ErrNotFound.
func affected(res sql.Result, err error) error {
	if err != nil {
		return err
	}
	n, err := res.RowsAffected()
	if err == nil && n == 0 {
		return ErrNotFound
	}
	return err
}

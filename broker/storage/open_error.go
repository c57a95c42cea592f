package storage

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"

	sqlite3 "modernc.org/sqlite/lib"
)

// The kinds of errors of a file that cannot be opened.
var (
	// ErrForeign means that another program wrote the file.
	ErrForeign = errors.New("the file belongs to another program")
	// ErrNewer means that a newer release wrote the file.
	ErrNewer = errors.New("the file is newer than this release")
	// ErrDamaged means that the content of the file is not what was written to
	// it.
	ErrDamaged = errors.New("the file is damaged")
)

// openError is a sentence for an operator about a file that cannot be used. It
// wraps the cause and the sentinel that applies.
type openError struct {
	sentence string
	kind     error // ErrForeign, ErrNewer, ErrDamaged or nil
	cause    error // nil for none
}

// Error returns the sentence and the cause.
func (e *openError) Error() string {
	if e.cause == nil {
		return e.sentence
	}
	return fmt.Sprintf("%s (%v)", e.sentence, e.cause)
}

// Unwrap returns the sentinel and the cause.
func (e *openError) Unwrap() []error {
	var all []error
	for _, err := range []error{e.kind, e.cause} {
		if err != nil {
			all = append(all, err)
		}
	}
	return all
}

// OpenError returns, for an error of opening or first reading the database at
// path, a sentence with the file, what is wrong with it and how to continue;
// nil for nil. Following its advice never loses data.
//
//revive:disable-next-line:cyclomatic // a flat list of cases, in the order in which they are tried
func OpenError(path string, err error) error {
	if _, done := errors.AsType[*openError](err); err == nil || done {
		return err
	}
	code, ofSQLite := primaryCode(err)
	switch {
	case errors.Is(err, ErrForeign):
		return foreignError(path)
	case errors.Is(err, syscall.ENOSPC), errors.Is(err, syscall.EDQUOT), ofSQLite && code == sqlite3.SQLITE_FULL:
		return diskFullError(path, err)
	case ofSQLite && (code == sqlite3.SQLITE_IOERR || code == sqlite3.SQLITE_CANTOPEN) && noSpace(filepath.Dir(path)):
		return diskFullError(path, err)
	case errors.Is(err, fs.ErrPermission), ofSQLite && (code == sqlite3.SQLITE_READONLY || code == sqlite3.SQLITE_CANTOPEN || code == sqlite3.SQLITE_PERM):
		return &openError{path + " cannot be opened for writing: make the file and its folder readable and writable for the user that runs the service", nil, err}
	case ofSQLite && code == sqlite3.SQLITE_NOTADB:
		return &openError{path + " is not an SQLite database: if it is the file of this service, its beginning was overwritten, so put back a copy of it from a backup and keep this one until that works; if it belongs to another program, configure another data_dir", ErrForeign, err}
	case errors.Is(err, ErrDamaged), ofSQLite && code == sqlite3.SQLITE_CORRUPT:
		return damagedErrorWith(path, err)
	case ofSQLite && code == sqlite3.SQLITE_IOERR:
		return &openError{path + " cannot be read: the disk reports an error, so check the disk", nil, err}
	case ofSQLite && (code == sqlite3.SQLITE_BUSY || code == sqlite3.SQLITE_LOCKED):
		return &openError{path + " is in use by another process: stop that one and try again", nil, err}
	}
	return fmt.Errorf("open %s: %w", path, err)
}

// Explain is OpenError if that recognizes the error; otherwise it returns err.
func Explain(path string, err error) error {
	if e, known := errors.AsType[*openError](OpenError(path, err)); known {
		return e
	}
	return err
}

func diskFullError(path string, err error) error {
	return &openError{"the disk that holds " + path + " is full: free some space and start again", nil, err}
}

func damagedError(path string) error { return damagedErrorWith(path, nil) }

func damagedErrorWith(path string, cause error) error {
	return &openError{path + " is damaged: stop the service and put back a copy of it from a backup; keep the damaged file, from which \"sqlite3 FILE .recover\" may read what is left", ErrDamaged, cause}
}

// foreignError is about a database whose tables belong to another program.
func foreignError(path string) error {
	return &openError{path + " is a database of another program: configure another data_dir, or put the service's own file back", ErrForeign, nil}
}

// spaceBytes is more than SQLite needs to open a file.
const spaceBytes = 64 << 10

// noSpace reports whether nothing can be written to a folder because the disk
// is full. SQLite does not report why an operation on its shared memory failed.
func noSpace(dir string) bool {
	f, err := os.CreateTemp(dir, ".space-*")
	if err != nil {
		return errors.Is(err, syscall.ENOSPC) || errors.Is(err, syscall.EDQUOT)
	}
	_, err = f.Write(make([]byte, spaceBytes))
	f.Close()           //nolint:errcheck // it was only a probe
	os.Remove(f.Name()) //nolint:errcheck // as above
	return errors.Is(err, syscall.ENOSPC) || errors.Is(err, syscall.EDQUOT)
}

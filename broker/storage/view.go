package storage

import (
	"context"
	"database/sql"
	"errors"

	"modernc.org/sqlite"
	sqlite3 "modernc.org/sqlite/lib"
)

// View calls read with a read-only connection to the database at path, and
// returns its error. If a process was killed while it wrote to the file before
// that was in WAL mode, there is a hot journal, without whose rollback SQLite
// does not read the file. View rolls it back and calls read again.
func View(ctx context.Context, path string, read func(*sql.DB) error) error {
	err := viewWith(path, "mode=ro", read)
	e, ok := errors.AsType[*sqlite.Error](err)
	if !ok || e.Code() != sqlite3.SQLITE_READONLY_ROLLBACK {
		return err
	}
	err = viewWith(path, "mode=rw", func(db *sql.DB) error {
		_, err := db.ExecContext(ctx, `SELECT count(*) FROM sqlite_schema`)
		return err
	})
	if err != nil {
		return err
	}
	return viewWith(path, "mode=ro", read)
}

func viewWith(path, mode string, read func(*sql.DB) error) (err error) {
	db := OpenPool(path, 1, mode+"&_pragma=busy_timeout(5000)&_pragma=cache_size(-2000)")
	defer func() { err = errors.Join(err, db.Close()) }()
	return read(db)
}

package storage

import (
	"context"
	"database/sql"
	"errors"

	"modernc.org/sqlite"
	sqlite3 "modernc.org/sqlite/lib"
)

// Look calls read with the database at path, which read cannot change, and returns its
// error. What a process had begun to write when it was killed, before the file was in WAL
// mode, is rolled back: SQLite does not read the file before, and read is called again then.
func Look(ctx context.Context, path string, read func(*sql.DB) error) error {
	err := lookWith(path, "mode=ro", read)
	e, ok := errors.AsType[*sqlite.Error](err)
	if !ok || e.Code() != sqlite3.SQLITE_READONLY_ROLLBACK {
		return err
	}
	err = lookWith(path, "mode=rw", func(db *sql.DB) error {
		_, err := db.ExecContext(ctx, `SELECT count(*) FROM sqlite_schema`)
		return err
	})
	if err != nil {
		return err
	}
	return lookWith(path, "mode=ro", read)
}

func lookWith(path, mode string, read func(*sql.DB) error) (err error) {
	db := openPool(path, 1, mode+"&_pragma=busy_timeout(5000)&_pragma=cache_size(-2000)")
	defer func() { err = errors.Join(err, db.Close()) }()
	return read(db)
}

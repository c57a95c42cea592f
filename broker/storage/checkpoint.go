package storage

import (
	"context"
	"errors"
	"fmt"
)

// Checkpoint writes the write-ahead log of the database at path, which exists and is not open
// elsewhere, to its file, so that this is complete without the log.
func Checkpoint(ctx context.Context, path string) (err error) {
	db := OpenPool(path, 1, "mode=rw&_pragma=busy_timeout(5000)&"+synchronous[Full])
	defer func() { err = OpenError(path, errors.Join(err, db.Close())) }()
	var busy, frames, written int
	if err := db.QueryRowContext(ctx, `PRAGMA wal_checkpoint(TRUNCATE)`).Scan(&busy, &frames, &written); err != nil {
		return err
	}
	if busy != 0 {
		return fmt.Errorf("another process uses the database %s", path)
	}
	return nil
}

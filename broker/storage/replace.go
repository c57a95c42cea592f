package storage

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"

	"modernc.org/sqlite"
)

// Replace replaces the whole content of the database of a connection, whose file is at path, by that
// of the database at source, which must not change meanwhile. It is one transaction: others see, and
// find after a crash, the content before or that after it. The connection must be one that writes,
// must be in no transaction, and must not be used otherwise meanwhile. Both databases must have
// the same page size.
func Replace(ctx context.Context, conn *sql.Conn, path, source string) error {
	err := conn.Raw(func(conn any) error {
		target, ok := conn.(interface {
			NewRestore(string) (*sqlite.Backup, error)
		})
		if !ok {
			return fmt.Errorf("%T cannot copy a database", conn)
		}
		b, err := target.NewRestore(dataSource(source, "mode=ro"))
		if err != nil {
			return err
		}
		for more := true; more && err == nil; {
			if err = ctx.Err(); err == nil {
				more, err = b.Step(pagesPerCopyStep)
				runtime.Gosched()
			}
		}
		return errors.Join(err, b.Finish()) // which undoes what is not complete
	})
	return OpenError(path, err)
}

// Execer executes statements, as a pool or a connection does.
type Execer interface {
	ExecContext(ctx context.Context, query string, args ...any) (sql.Result, error)
}

// Keep copies the database of a connection to target, which has this name only when it is
// complete and durable. An earlier file of that name is replaced. The connection must be in no
// transaction.
func Keep(ctx context.Context, conn Execer, target string) (err error) {
	partial := target + ".partial"
	defer func() {
		if err != nil {
			os.Remove(partial) //nolint:errcheck // the next call does so
		}
	}()
	if err := os.Remove(partial); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("delete the incomplete copy of the database: %w", err)
	}
	if err := create(partial, "the copy of the database"); err != nil { // VACUUM INTO keeps the mode of an empty file
		return err
	}
	if _, err := conn.ExecContext(ctx, `VACUUM INTO ?`, partial); err != nil {
		return fmt.Errorf("copy the database to %s: %w", partial, err)
	}
	if err := secure(partial); err != nil {
		return fmt.Errorf("write the copy of the database to disk: %w", err)
	}
	if err := os.Rename(partial, target); err != nil {
		return fmt.Errorf("name the copy of the database: %w", err)
	}
	if err := SyncDir(filepath.Dir(target)); err != nil {
		return fmt.Errorf("write the name of the copy of the database to disk: %w", err)
	}
	return nil
}

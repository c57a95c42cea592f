package db

import (
	"context"
	"database/sql"
	"embed"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"runtime"

	"github.com/pressly/goose/v3"

	"signalbox/broker/storage"
)

//go:embed migrations/*.sql
var migrationFiles embed.FS

// applicationID marks our files in SQLite's header.
const applicationID = 0x53674278

// released returns the migrations of this version of the program.
func released() fs.FS {
	steps, err := fs.Sub(migrationFiles, "migrations")
	if err != nil {
		panic(err) // the directory is embedded above
	}
	return steps
}

// Check reports, as Open would, a file at path that cannot be written to, that
// a newer version wrote or that is not ours. It looks at the file as [storage.View]
// does; a file that does not exist is fine.
func Check(ctx context.Context, path string) error {
	f, err := os.OpenFile(path, os.O_RDWR, 0)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil
	case err != nil:
		return storage.OpenError(path, err)
	}
	f.Close() //nolint:errcheck // it was only a trial
	_, err = inspect(ctx, path, released())
	return storage.OpenError(path, err)
}

// HasEmbedded reports whether the file at path knows the broker of this service's own
// process. It looks at the file as [storage.View] does; a file that does not exist, or
// holds nothing, knows none.
func HasEmbedded(ctx context.Context, path string) (known bool, err error) {
	if info, err := os.Stat(path); errors.Is(err, fs.ErrNotExist) || err == nil && info.Size() == 0 {
		return false, nil
	}
	err = storage.View(ctx, path, func(pool *sql.DB) error {
		version, err := storedVersion(ctx, pool)
		if err != nil || version == 0 {
			return err
		}
		known, err = exists(ctx, pool, "SELECT EXISTS (SELECT 1 FROM brokers WHERE type = 'on-premise-setup')")
		return err
	})
	return known, storage.OpenError(path, err)
}

// inspect returns the schema version of the file at path, 0 for a new one, and
// changes nothing in it.
func inspect(ctx context.Context, path string, steps fs.FS) (version int64, err error) {
	if info, err := os.Stat(path); errors.Is(err, fs.ErrNotExist) || err == nil && info.Size() == 0 {
		return 0, create(path)
	} else if err != nil {
		return 0, err
	}
	err = storage.View(ctx, path, func(pool *sql.DB) (err error) {
		version, err = storedVersion(ctx, pool)
		return err
	})
	if err != nil {
		return 0, err
	}
	if newest, err := newestVersion(steps); err != nil || version > newest {
		return 0, errors.Join(err, fmt.Errorf("%w: it has schema %d, this program knows up to %d: "+
			"install the newer version again, or put back the copy %s.before-v%d",
			ErrNewer, version, newest, filepath.Base(path), newest+1))
	}
	return version, nil
}

// create makes an empty file that only its owner can read; SQLite creates its
// companion files with the same mode.
func create(path string) error {
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return err
	}
	return f.Close()
}

// storedVersion reads goose's table without creating it. A file with tables
// that are not ours is refused.
func storedVersion(ctx context.Context, q queryer) (version int64, err error) {
	var tables, owner int64
	var ours bool
	const look = `
		SELECT count(*), count(*) FILTER (WHERE name = 'goose_db_version') > 0,
			(SELECT application_id FROM pragma_application_id)
		FROM sqlite_schema WHERE type = 'table'`
	if err := q.QueryRowContext(ctx, look).Scan(&tables, &ours, &owner); err != nil {
		return 0, err
	}
	switch {
	case tables == 0:
		return 0, nil
	case !ours, owner != applicationID && owner != 0:
		return 0, ErrForeign
	}
	const read = "SELECT coalesce(max(version_id), 0) FROM goose_db_version WHERE is_applied"
	if err := q.QueryRowContext(ctx, read).Scan(&version); err != nil {
		return 0, fmt.Errorf("read schema version: %w", err)
	}
	return version, nil
}

func newestVersion(steps fs.FS) (newest int64, err error) {
	pending, err := versionsAfter(steps, 0)
	if err != nil {
		return 0, err
	}
	return pending[len(pending)-1], nil
}

// versionsAfter lists the migrations above version, lowest first.
func versionsAfter(steps fs.FS, version int64) (after []int64, err error) {
	names, err := fs.Glob(steps, "*.sql") // sorted, and numbered with leading zeros
	if err != nil {
		return nil, err
	}
	for _, name := range names {
		n, err := goose.NumericComponent(name)
		if err != nil {
			return nil, err
		}
		if n > version {
			after = append(after, n)
		}
	}
	return after, nil
}

// migrate runs what is missing, each migration in its own transaction, after a
// snapshot if the file holds data already.
func migrate(ctx context.Context, rw *sql.DB, path string, from int64, steps fs.FS, log *slog.Logger) error {
	pending, err := versionsAfter(steps, from)
	if err != nil || len(pending) == 0 {
		return err
	}
	if from > 0 {
		copied, err := snapshot(ctx, rw, path, pending[0])
		if err != nil {
			return err
		}
		log.InfoContext(ctx, "database copied before its migration", "copy", copied)
	}
	provider, err := goose.NewProvider(goose.DialectSQLite3, rw, steps,
		goose.WithDisableGlobalRegistry(true), goose.WithLogger(goose.NopLogger()))
	if err != nil {
		return fmt.Errorf("load migrations: %w", err)
	}
	if _, err := provider.Up(ctx); err != nil {
		return fmt.Errorf("migrate from schema %d: %w", from, err)
	}
	log.InfoContext(ctx, "database migrated", "from", from, "to", pending[len(pending)-1])
	return nil
}

// snapshot copies the database to path.before-v<next>. A copy of that name from
// an earlier attempt is replaced once the new one is on disk: both hold the
// same schema, and this one the later data.
func snapshot(ctx context.Context, rw *sql.DB, path string, next int64) (string, error) {
	target := fmt.Sprintf("%s.before-v%d", path, next)
	partial := target + ".partial"
	if err := os.Remove(partial); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return "", fmt.Errorf("snapshot: %w", err)
	}
	if err := create(partial); err != nil { // VACUUM INTO fills an empty file and keeps its mode
		return "", fmt.Errorf("snapshot: %w", err)
	}
	if _, err := rw.ExecContext(ctx, "VACUUM INTO ?", partial); err != nil {
		return "", fmt.Errorf("snapshot: %w", err)
	}
	if err := replace(partial, target); err != nil {
		return "", fmt.Errorf("snapshot: %w", err)
	}
	return target, nil
}

// replace renames old to its final name, durably.
func replace(from, to string) error {
	if err := syncFile(from); err != nil {
		return err
	}
	if err := os.Rename(from, to); err != nil {
		return err
	}
	if runtime.GOOS == "windows" { // which cannot bring a folder's names to the disk
		return nil
	}
	return syncFile(filepath.Dir(to))
}

func syncFile(path string) error {
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	return errors.Join(f.Sync(), f.Close())
}

package storage

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"

	"github.com/pressly/goose/v3"
)

// migrate brings the schema of a file up to date. It leaves a copy beside a
// file that is not empty, and does not change a file that is newer than this
// program.
func migrate(ctx context.Context, db *sql.DB, path string, steps fs.FS, log *slog.Logger) error {
	p, err := goose.NewProvider(goose.DialectSQLite3, db, steps, goose.WithDisableGlobalRegistry(true), goose.WithSlog(log))
	if err != nil {
		return fmt.Errorf("read the migrations: %w", err)
	}
	have, err := version(ctx, db)
	if err != nil {
		return OpenError(path, err)
	}
	sources := p.ListSources()
	want := sources[len(sources)-1].Version
	switch {
	case have > want:
		return newerError(path, have, want)
	case have == want:
		return nil
	case have > 0:
		if err := snapshot(ctx, db, fmt.Sprintf("%s.before-v%d", path, want)); err != nil {
			return Explain(path, err)
		}
		if err := enableVacuum(ctx, db); err != nil {
			return Explain(path, fmt.Errorf("rebuild %s for incremental vacuum: %w", path, err))
		}
	}
	if _, err := p.Up(ctx); err != nil {
		return Explain(path, fmt.Errorf("bring the schema of %s from %d to %d: %w", path, have, want, err))
	}
	log.Info("database schema brought up to date", slog.String("path", path), slog.Int64("from", have), slog.Int64("to", want))
	return nil
}

// Check returns the error that Open would return for a file that cannot be
// written to or that a newer release wrote. It reads the file as [View] does; a
// file that does not exist is no error.
func Check(ctx context.Context, path string, l Layout) error {
	if empty(path) {
		return nil
	}
	if err := create(path, l.Name); err != nil {
		return err
	}
	steps, err := fs.Glob(l.Migrations, "*.sql") // sorted, because numbered with leading zeros
	if err != nil {
		return err
	}
	want, err := goose.NumericComponent(steps[len(steps)-1])
	if err != nil {
		return err
	}
	var have int64
	err = View(ctx, path, func(db *sql.DB) (err error) {
		have, err = version(ctx, db)
		return err
	})
	if err != nil {
		return OpenError(path, err)
	}
	if have > want {
		return newerError(path, have, want)
	}
	return nil
}

func newerError(path string, have, want int64) error {
	return fmt.Errorf("%s was written by a newer release (schema %d, this one knows %d): start that release, or keep the file elsewhere and put the copy %s.before-v%d in its place, which lacks what came later",
		path, have, want, path, want+1)
}

// version returns the schema version of a file, 0 for an empty one, and writes
// nothing. The error is ErrForeign for a file with tables of another program.
func version(ctx context.Context, db *sql.DB) (int64, error) {
	const tables = `SELECT count(*), count(*) FILTER (WHERE name = 'goose_db_version') FROM sqlite_schema WHERE type = 'table'`
	var all, ours int
	if err := db.QueryRowContext(ctx, tables).Scan(&all, &ours); err != nil || all == 0 {
		return 0, err
	}
	if ours == 0 {
		return 0, ErrForeign
	}
	const newest = `SELECT coalesce(max(version_id), 0) FROM goose_db_version WHERE is_applied`
	var v int64
	err := db.QueryRowContext(ctx, newest).Scan(&v)
	return v, err
}

// snapshot copies the database. The copy has its name only after it is
// complete, and replaces an earlier one of that name.
func snapshot(ctx context.Context, db *sql.DB, path string) error {
	partial := path + ".partial"
	if err := os.Remove(partial); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("delete the incomplete copy of the database: %w", err)
	}
	if _, err := db.ExecContext(ctx, `VACUUM INTO ?`, partial); err != nil {
		return fmt.Errorf("copy the database to %s before its schema changes: %w", partial, err)
	}
	if err := secure(partial); err != nil {
		return fmt.Errorf("write the copy of the database to disk: %w", err)
	}
	if err := os.Rename(partial, path); err != nil {
		return fmt.Errorf("name the copy of the database: %w", err)
	}
	return nil
}

// enableVacuum rebuilds a file that an early release created, so that its free
// pages can be released.
func enableVacuum(ctx context.Context, db *sql.DB) error {
	var mode int
	if err := db.QueryRowContext(ctx, `PRAGMA auto_vacuum`).Scan(&mode); err != nil || mode != 0 {
		return err
	}
	_, err := db.ExecContext(ctx, `PRAGMA auto_vacuum = INCREMENTAL; VACUUM`)
	return err
}

// secure flushes a file to disk and restricts it to its owner.
func secure(path string) error {
	f, err := os.OpenFile(path, os.O_RDWR, 0)
	if err != nil {
		return err
	}
	return errors.Join(f.Chmod(0o600), f.Sync(), f.Close())
}

package storage

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"slices"

	"github.com/pressly/goose/v3"
)

// migrate brings the schema of a file up to date, each migration in its own
// transaction. It leaves a copy beside a file that is not empty, named after the
// first migration that runs, and does not change a file that is newer than this
// program.
func migrate(ctx context.Context, db *sql.DB, path string, l Layout, log *slog.Logger) error {
	steps, err := readMigrations(l)
	if err != nil {
		return fmt.Errorf("read the migrations: %w", err)
	}
	p, err := goose.NewProvider(goose.DialectSQLite3, db, nil, goose.WithGoMigrations(migrationsOf(steps)...),
		goose.WithDisableGlobalRegistry(true), goose.WithSlog(log))
	if err != nil {
		return fmt.Errorf("read the migrations: %w", err)
	}
	have, err := Version(ctx, db, l)
	if err != nil {
		return OpenError(path, err)
	}
	want := steps[len(steps)-1].version
	switch {
	case have > want:
		return newerError(path, have, want)
	case have == want:
		return nil
	case have == 0 && l.Schema != "":
		if err := createAtOnce(ctx, db, l.Schema); err != nil {
			return Explain(path, fmt.Errorf("create the tables of %s: %w", path, err))
		}
	case have > 0:
		copied, err := snapshot(ctx, db, path, first(steps, have))
		if err != nil {
			return Explain(path, err)
		}
		log.Info("database copied before its schema changes", slog.String("path", path), slog.String("copy", copied))
		if err := enableVacuum(ctx, db, l); err != nil {
			return Explain(path, fmt.Errorf("rebuild %s for incremental vacuum: %w", path, err))
		}
	}
	if _, err := p.Up(ctx); err != nil {
		return Explain(path, fmt.Errorf("bring the schema of %s from %d to %d: %w", path, have, want, err))
	}
	log.Info("database schema brought up to date", slog.String("path", path), slog.Int64("from", have), slog.Int64("to", want))
	return nil
}

// createAtOnce executes the schema of a layout in a file without tables, in one transaction. It changes nothing
// in a file in which goose recorded that no migration is applied, as after the first start of an earlier
// release was interrupted.
func createAtOnce(ctx context.Context, db *sql.DB, schema string) error {
	tx, err := db.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	defer tx.Rollback() //nolint:errcheck // nothing to do after Commit
	var tables int
	if err := tx.QueryRowContext(ctx, `SELECT count(*) FROM sqlite_schema`).Scan(&tables); err != nil || tables > 0 {
		return err
	}
	if _, err := tx.ExecContext(ctx, schema); err != nil {
		return err
	}
	return tx.Commit()
}

// migration is one of a layout.
type migration struct {
	version int64
	text    string
}

// readMigrations returns the migrations of a layout in their order, of which there is one at least.
func readMigrations(l Layout) (steps []migration, err error) {
	names, err := fs.Glob(l.Migrations, "*.sql") // sorted, because numbered with leading zeros
	if err != nil {
		return nil, err
	}
	for _, name := range names {
		version, err := goose.NumericComponent(name)
		if err != nil {
			return nil, err
		}
		if l.Last > 0 && version > l.Last {
			break
		}
		text, err := fs.ReadFile(l.Migrations, name)
		if err != nil {
			return nil, err
		}
		steps = append(steps, migration{version, string(text)})
	}
	if len(steps) == 0 {
		return nil, fmt.Errorf("%s has no migrations", l.Name)
	}
	return steps, nil
}

// migrationsOf returns migrations for goose, which have no part that reverses
// them. SQLite executes the text of each as a whole: goose's own reader splits it into
// statements, for which it allocates 8 MiB a file, a third of the time of a first start.
func migrationsOf(steps []migration) (all []*goose.Migration) {
	for _, m := range steps {
		all = append(all, goose.NewGoMigration(m.version, &goose.GoFunc{RunTx: func(ctx context.Context, tx *sql.Tx) error {
			_, err := tx.ExecContext(ctx, m.text)
			return err
		}}, nil))
	}
	return all
}

// first returns the version of the first migration that a file with version have
// lacks.
func first(steps []migration, have int64) int64 {
	i := slices.IndexFunc(steps, func(m migration) bool { return m.version > have })
	return steps[i].version
}

// Latest returns the version of the schema with all migrations of a layout.
func Latest(l Layout) (int64, error) {
	steps, err := readMigrations(l)
	if err != nil {
		return 0, fmt.Errorf("read the migrations: %w", err)
	}
	return steps[len(steps)-1].version, nil
}

// Upgrade runs, in a transaction, the migrations of a layout that the file lacks, for one whose schema
// changes while it is open. KeepBefore copies the file before.
func Upgrade(ctx context.Context, tx *sql.Tx, l Layout) error {
	steps, err := readMigrations(l)
	if err != nil {
		return fmt.Errorf("read the migrations: %w", err)
	}
	have, err := Version(ctx, tx, l)
	if err != nil {
		return err
	}
	for _, m := range steps {
		if m.version <= have {
			continue
		}
		_, err := tx.ExecContext(ctx, m.text)
		if err == nil {
			_, err = tx.ExecContext(ctx, "INSERT INTO goose_db_version (version_id, is_applied) VALUES (?, 1)", m.version)
		}
		if err != nil {
			return fmt.Errorf("bring the schema from %d to %d: %w", have, m.version, err)
		}
	}
	return nil
}

// KeepBefore copies a file that lacks migrations, as [Open] does before it runs them. The connection must
// be in no transaction.
func KeepBefore(ctx context.Context, db Execer, path string, l Layout, have int64) (copied string, err error) {
	steps, err := readMigrations(l)
	if err != nil {
		return "", fmt.Errorf("read the migrations: %w", err)
	}
	copied, err = snapshot(ctx, db, path, first(steps, have))
	return copied, Explain(path, err)
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
	want, err := Latest(l)
	if err != nil {
		return err
	}
	var have int64
	err = View(ctx, path, func(db *sql.DB) (err error) {
		have, err = Version(ctx, db, l)
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
	return &openError{fmt.Sprintf("%s was written by a newer release (schema %d, this one knows %d): start that release, or keep the file elsewhere and put the copy %s.before-v%d in its place, which lacks what came later",
		path, have, want, path, want+1), ErrNewer, nil}
}

// Version returns the schema version of a file, 0 for an empty one, and writes
// nothing. The error is ErrForeign for a file with tables of another program.
func Version(ctx context.Context, db interface {
	QueryRowContext(ctx context.Context, query string, args ...any) *sql.Row
}, l Layout) (int64, error) {
	const tables = `
		SELECT count(*), count(*) FILTER (WHERE name = 'goose_db_version'), (SELECT application_id FROM pragma_application_id)
		FROM sqlite_schema WHERE type = 'table'`
	var all, ours int
	var application int64
	if err := db.QueryRowContext(ctx, tables).Scan(&all, &ours, &application); err != nil || all == 0 {
		return 0, err
	}
	if ours == 0 || l.ApplicationID != 0 && application != 0 && application != l.ApplicationID {
		return 0, ErrForeign
	}
	const newest = `SELECT coalesce(max(version_id), 0) FROM goose_db_version WHERE is_applied`
	var v int64
	err := db.QueryRowContext(ctx, newest).Scan(&v)
	return v, err
}

// snapshot copies the database to path.before-v<next>, which it returns. The copy has its name only
// after it is complete and durable. It replaces an earlier one of that name, of a
// failed attempt, which has the same schema and older data.
func snapshot(ctx context.Context, db Execer, path string, next int64) (target string, err error) {
	target = fmt.Sprintf("%s.before-v%d", path, next)
	if err := Keep(ctx, db, target); err != nil {
		return "", fmt.Errorf("before its schema changes: %w", err)
	}
	return target, nil
}

// enableVacuum rebuilds a file that an early release created, so that its free
// pages can be released.
func enableVacuum(ctx context.Context, db *sql.DB, l Layout) error {
	if l.NoVacuum {
		return nil
	}
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

package storage

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"strings"
)

// Identity is the data directory that a database belongs to, and the name of
// the database (such as "broker.db").
type Identity struct {
	Directory string
	Name      string
}

// Content is the result of Inspect. Empty is true if the file does not exist or
// has no table. Identity is the zero value if the database has none.
type Content struct {
	Empty    bool
	Identity Identity
}

// Inspect reads the database at path as [View] does.
func Inspect(ctx context.Context, path string) (c Content, err error) {
	if empty(path) {
		return Content{Empty: true}, nil
	}
	err = View(ctx, path, func(db *sql.DB) error {
		c, err = readContent(ctx, db)
		return err
	})
	return c, OpenError(path, err)
}

func readContent(ctx context.Context, db *sql.DB) (c Content, err error) {
	const tables = `SELECT count(*), count(*) FILTER (WHERE name = 'data_directory') FROM sqlite_schema WHERE type = 'table'`
	var all, carries int
	if err := db.QueryRowContext(ctx, tables).Scan(&all, &carries); err != nil {
		return c, err
	}
	if c.Empty = all == 0; carries == 0 {
		return c, nil
	}
	const read = `SELECT identity, name FROM data_directory`
	err = db.QueryRowContext(ctx, read).Scan(&c.Identity.Directory, &c.Identity.Name)
	if errors.Is(err, sql.ErrNoRows) {
		err = nil
	}
	return c, err
}

// Identify writes an identity into the database at path, which must exist, and
// replaces an earlier one. The file may be open elsewhere.
func Identify(ctx context.Context, path string, i Identity) (err error) {
	db := OpenPool(path, 1, forAll+forWriter+synchronous[Full])
	defer func() { err = errors.Join(err, db.Close()) }()
	tx, err := db.BeginTx(ctx, nil)
	if err != nil {
		return OpenError(path, err)
	}
	defer tx.Rollback() //nolint:errcheck // does nothing after the commit
	for _, q := range []string{`
		CREATE TABLE IF NOT EXISTS data_directory (
			id       INTEGER PRIMARY KEY CHECK (id = 1),
			identity TEXT NOT NULL,
			name     TEXT NOT NULL
		) STRICT`,
		`DELETE FROM data_directory`,
	} {
		if _, err := tx.ExecContext(ctx, q); err != nil {
			return OpenError(path, err)
		}
	}
	const write = `INSERT INTO data_directory (id, identity, name) VALUES (1, ?, ?)`
	if _, err := tx.ExecContext(ctx, write, i.Directory, i.Name); err != nil {
		return OpenError(path, err)
	}
	return OpenError(path, tx.Commit())
}

// QuickCheck reads the whole database at path, which may be open elsewhere, and
// returns an error that wraps ErrDamaged if SQLite finds damage. It checks one
// table after the other, in order not to hold one snapshot of the file for
// long.
func QuickCheck(ctx context.Context, path string) error {
	return View(ctx, path, func(db *sql.DB) error { return quickCheck(ctx, db, path) })
}

func quickCheck(ctx context.Context, db *sql.DB, path string) error {
	names, err := tables(ctx, db)
	if err != nil {
		return OpenError(path, err)
	}
	for _, name := range names {
		var verdict string
		err := db.QueryRowContext(ctx, `SELECT quick_check FROM pragma_quick_check(?)`, name).Scan(&verdict)
		if err != nil {
			return OpenError(path, err)
		}
		if verdict != "ok" {
			return fmt.Errorf("%w (table %s: %s)", damagedError(path), name, strings.Join(strings.Fields(verdict), " "))
		}
	}
	return nil
}

// tables lists the tables of a database.
func tables(ctx context.Context, db *sql.DB) (names []string, err error) {
	rows, err := db.QueryContext(ctx, `SELECT name FROM sqlite_schema WHERE type = 'table' AND name NOT LIKE 'sqlite_%' ORDER BY name`)
	if err != nil {
		return nil, err
	}
	defer rows.Close() //nolint:errcheck // rows.Err returns it
	for rows.Next() {
		var name string
		if err := rows.Scan(&name); err != nil {
			return nil, err
		}
		names = append(names, name)
	}
	return names, rows.Err()
}

// Schema returns the version of the schema of the database at path, 0 for one without tables. It
// reads the file as [View] does.
func Schema(ctx context.Context, path string) (version int64, err error) {
	err = View(ctx, path, func(db *sql.DB) (err error) {
		version, err = Version(ctx, db, Layout{})
		return err
	})
	return version, OpenError(path, err)
}

package storage

import (
	"context"
	"database/sql"
	"fmt"
	"strings"
)

// Summary is the schema version of a database and the results of queries on it, as texts.
type Summary struct {
	Schema int64
	Values map[string]string
}

// Summarise checks the whole database at path, which must not be open elsewhere, for
// damage, and runs queries that return one value each.
func Summarise(ctx context.Context, path string, queries map[string]string) (s Summary, err error) {
	s.Values = map[string]string{}
	err = View(ctx, path, func(db *sql.DB) error {
		if s.Schema, err = Version(ctx, db, Layout{}); err != nil {
			return err
		}
		if err := integrityCheck(ctx, db, path); err != nil {
			return err
		}
		for name, q := range queries {
			var v string
			if err := db.QueryRowContext(ctx, q).Scan(&v); err != nil {
				return fmt.Errorf("count the %s: %w", name, err)
			}
			s.Values[name] = v
		}
		return nil
	})
	return s, OpenError(path, err)
}

// Scan reads one value from the database at path, which may be open elsewhere.
func Scan(ctx context.Context, path, query string) (value string, err error) {
	err = View(ctx, path, func(db *sql.DB) error { return db.QueryRowContext(ctx, query).Scan(&value) })
	return value, OpenError(path, err)
}

// integrityCheck compares the indexes with their tables too, which quickCheck does not.
func integrityCheck(ctx context.Context, db *sql.DB, path string) error {
	var verdict string
	if err := db.QueryRowContext(ctx, `PRAGMA integrity_check(1)`).Scan(&verdict); err != nil {
		return err
	}
	if verdict != "ok" {
		return fmt.Errorf("%w (%s)", damagedError(path), strings.Join(strings.Fields(verdict), " "))
	}
	return nil
}

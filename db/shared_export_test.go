package db

import (
	"context"
	"fmt"
	"io/fs"
	"log/slog"
	"strings"
	"testing/fstest"
)

// SharedContent returns all rows of all tables that are shared, with their row numbers where they
// have any.
func (d *DB) SharedContent(ctx context.Context) (map[string][]string, error) {
	names, err := collect(ctx, d.ro, scanText, `
		SELECT name FROM sqlite_schema WHERE type = 'table' AND name NOT LIKE 'sqlite_%' AND name NOT LIKE 'goose%'`)
	if err != nil {
		return nil, err
	}
	content := map[string][]string{}
	for _, name := range names {
		if copiedTables[name] != "" || name == "local_state" || name == identityTable {
			continue
		}
		columns, err := collect(ctx, d.ro, scanText, "SELECT name FROM pragma_table_info(?)", name)
		if err != nil {
			return nil, err
		}
		numbered, err := exists(ctx, d.ro, "SELECT EXISTS (SELECT 1 FROM pragma_table_list WHERE name = ? AND wr = 0)", name)
		if err != nil {
			return nil, err
		}
		if numbered {
			columns = append(columns, "rowid")
		}
		row := "quote(" + strings.Join(columns, ") || ' ' || quote(") + ")"
		if content[name], err = collect(ctx, d.ro, scanText, fmt.Sprintf("SELECT %s FROM %s ORDER BY 1", row, name)); err != nil {
			return nil, err
		}
	}
	return content, nil
}

// LocalContent returns the rows of tables that are not shared.
func (d *DB) LocalContent(ctx context.Context) (rows []string, err error) {
	return collect(ctx, d.ro, scanText, `
		SELECT 'probe ' || writes FROM probe UNION ALL SELECT 'sink ' || name || ' ' || seq FROM audit_sinks
		UNION ALL SELECT 'origin ' || origin FROM local_state`)
}

// WaitingWrites returns the number of writes that wait until they are executed.
func (d *DB) WaitingWrites() int {
	s := d.sharing.Load()
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.waiting)
}

// Synchronous returns the level of PRAGMA synchronous of the connection that writes.
func (d *DB) Synchronous(ctx context.Context) (level int, err error) {
	return level, d.rw.QueryRowContext(ctx, "PRAGMA synchronous").Scan(&level)
}

// DropSharing removes what the last migrations have added.
func (d *DB) DropSharing(ctx context.Context) error {
	_, err := d.rw.ExecContext(ctx, `
		DROP TABLE shared_state; DROP TABLE local_state; DROP TABLE shared_keys; DROP TABLE shared_entries; DROP TABLE definitions; ALTER TABLE audit_open DROP COLUMN origin;
		DELETE FROM goose_db_version WHERE version_id >= 13`)
	return err
}

// Age has the content be that after many more entries, which have changed nothing.
func (d *DB) Age(ctx context.Context) error {
	_, err := d.rw.ExecContext(ctx, "UPDATE shared_state SET version = version + ?", knownEntries+1)
	return err
}

// OpenLater opens a database as a later release does, which has one more migration.
func OpenLater(ctx context.Context, path, migration string) (*DB, error) {
	names, err := fs.Glob(released(), "*.sql")
	if err != nil {
		return nil, err
	}
	steps := fstest.MapFS{"9000_later.sql": {Data: []byte("-- +goose Up\n" + migration)}}
	for _, name := range names {
		text, err := fs.ReadFile(released(), name)
		if err != nil {
			return nil, err
		}
		steps[name] = &fstest.MapFile{Data: text}
	}
	return open(ctx, path, layout(steps), slog.New(slog.DiscardHandler))
}

// Query returns the text that a query of one row and column yields.
func (d *DB) Query(ctx context.Context, query string) (s string, err error) {
	return s, d.ro.QueryRowContext(ctx, query).Scan(&s)
}

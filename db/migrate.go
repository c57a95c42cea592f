package db

import (
	"context"
	"database/sql"
	"embed"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"signalbox/broker/storage"
)

//go:embed migrations/*.sql
var migrationFiles embed.FS

//go:embed schema.sql
var schemaFile string

// applicationID marks our files in SQLite's header.
const applicationID = 0x53674278

// layout returns the schema with the migrations.
func layout(steps fs.FS) storage.Layout {
	return storage.Layout{Name: "the service's database", Migrations: steps, ApplicationID: applicationID, NoVacuum: true}
}

// newest returns the schema of this version of the program.
func newest() storage.Layout {
	l := layout(released())
	l.Schema = schemaFile
	return l
}

// released returns the migrations of this version of the program.
func released() fs.FS {
	steps, err := fs.Sub(migrationFiles, "migrations")
	if err != nil {
		panic(err) // the directory is embedded above
	}
	return steps
}

// Check returns the error that Open would return for a file that cannot be written to, that
// a newer release wrote or that belongs to another program; see [storage.Check].
func Check(ctx context.Context, path string) error {
	return storage.Check(ctx, path, layout(released()))
}

// HasEmbedded reports whether the file at path knows the broker of this service's own
// process. It looks at the file as [storage.View] does; a file that does not exist, or
// holds nothing, knows none.
func HasEmbedded(ctx context.Context, path string) (known bool, err error) {
	if info, err := os.Stat(path); errors.Is(err, fs.ErrNotExist) || err == nil && info.Size() == 0 {
		return false, nil
	}
	err = storage.View(ctx, path, func(pool *sql.DB) error {
		version, err := storage.Version(ctx, pool, layout(released()))
		if err != nil || version == 0 {
			return err
		}
		known, err = exists(ctx, pool, "SELECT EXISTS (SELECT 1 FROM brokers WHERE type = 'on-premise-setup')")
		return err
	})
	return known, storage.OpenError(path, err)
}

// View calls read with the database at path, which is only read and may be in use by another
// process. The methods that write fail.
func View(ctx context.Context, path string, read func(*DB) error) error {
	if _, err := os.Stat(path); errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("there is no database in %s: give the data directory of the service, as with --data_dir", filepath.Dir(path))
	}
	if err := Check(ctx, path); err != nil {
		return err
	}
	err := storage.View(ctx, path, func(pool *sql.DB) error {
		d := &DB{ro: pool}
		d.cache.Store(&rowCache{})
		return read(d)
	})
	return storage.OpenError(path, err)
}

// Package schema is the schema of broker.db: the tables of access control, bans, sessions
// and messages, as the migrations of all releases.
//
// schema.sql is the result of the migrations, from which a new file is created. The package
// must not import any package of this module but broker/storage.
package schema

import (
	"context"
	"embed"
	"io/fs"
	"log/slog"

	"signalbox/broker/storage"
)

// Name is the name of the file in messages to operators.
const Name = "the broker's database"

//go:embed migrations/*.sql
var embedded embed.FS

//go:embed schema.sql
var newest string

// layout returns the migrations. They are only ever appended to.
func layout() storage.Layout {
	sub, err := fs.Sub(embedded, "migrations")
	if err != nil {
		panic(err) // the name above is a valid one
	}
	return storage.Layout{Name: Name, Migrations: sub, Schema: newest}
}

// Open opens or creates broker.db; see [storage.Open].
func Open(ctx context.Context, path string, log *slog.Logger) (*storage.File, error) {
	return storage.Open(ctx, path, layout(), log)
}

// Check returns the error that Open would return; see [storage.Check].
func Check(ctx context.Context, path string) error { return storage.Check(ctx, path, layout()) }

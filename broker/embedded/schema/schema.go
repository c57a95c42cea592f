// Package schema is what the file broker.db holds: the tables of access control,
// bans, sessions and messages, step by step as releases have added to them.
//
// schema.sql is what the steps add up to. The package must not import any package
// of this module but broker/storage.
package schema

import (
	"context"
	"embed"
	"io/fs"
	"log/slog"

	"signalbox/broker/storage"
)

// Name is what the file is called in messages to operators.
const Name = "the broker's database"

//go:embed migrations/*.sql
var embedded embed.FS

// layout returns the steps of the schema. They are only ever added to.
func layout() storage.Layout {
	sub, err := fs.Sub(embedded, "migrations")
	if err != nil {
		panic(err) // the name above is a valid one
	}
	return storage.Layout{Name: Name, Migrations: sub}
}

// Open opens or creates broker.db; see [storage.Open].
func Open(ctx context.Context, path string, log *slog.Logger) (*storage.File, error) {
	return storage.Open(ctx, path, layout(), log)
}

// Check refuses what Open would refuse; see [storage.Check].
func Check(ctx context.Context, path string) error { return storage.Check(ctx, path, layout()) }

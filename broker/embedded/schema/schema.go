// Package schema is what the file broker.db holds: the tables of access control,
// bans, sessions and messages, step by step as releases have added to them.
//
// schema.sql is what the steps add up to. The package must not import any package
// of this module but broker/file.
package schema

import (
	"context"
	"embed"
	"io/fs"
	"log/slog"

	"signalbox/broker/file"
)

// Name is what the file is called in messages to operators.
const Name = "the broker's database"

//go:embed migrations/*.sql
var embedded embed.FS

// layout gives the steps of the schema. They are only ever added to.
func layout() file.Layout {
	sub, err := fs.Sub(embedded, "migrations")
	if err != nil {
		panic(err) // the name above is a valid one
	}
	return file.Layout{Name: Name, Migrations: sub}
}

// Open opens or creates broker.db; see [file.Open].
func Open(ctx context.Context, path string, log *slog.Logger) (*file.File, error) {
	return file.Open(ctx, path, layout(), log)
}

// Check refuses what Open would refuse; see [file.Check].
func Check(ctx context.Context, path string) error { return file.Check(ctx, path, layout()) }

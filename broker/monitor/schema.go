package monitor

import (
	"embed"
	"io/fs"

	"signalbox/broker/storage"
)

//go:embed migrations/*.sql
var embedded embed.FS

// layout returns the migrations, which are only ever appended to. The file has a fixed
// number of rows per broker, so free pages are used again.
func layout() storage.Layout {
	sub, err := fs.Sub(embedded, "migrations")
	if err != nil {
		panic(err) // cannot happen: the name is valid
	}
	return storage.Layout{Name: "the metric history", Migrations: sub, NoVacuum: true}
}

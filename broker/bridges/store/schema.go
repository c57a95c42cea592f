package store

import (
	"embed"
	"io/fs"

	"signalbox/broker/storage"
)

// name is what the file is called in messages to operators.
const name = "the bridges' database"

//go:embed migrations/*.sql
var embedded embed.FS

// layout gives the steps of the schema. They are only ever added to.
func layout() storage.Layout {
	sub, err := fs.Sub(embedded, "migrations")
	if err != nil {
		panic(err) // the name above is a valid one
	}
	return storage.Layout{Name: name, Migrations: sub}
}

// idBits is how much of a row's number is the ID of an entry within its queue; the
// queue's number is above.
const idBits = 43

// rowID gives the number of a row.
func rowID(queue int64, id uint64) int64 { return queue<<idBits | int64(id) }

// entryID gives the ID of an entry.
func entryID(row int64) uint64 { return uint64(row) & (1<<idBits - 1) }

package store

import (
	"embed"
	"io/fs"

	"signalbox/broker/storage"
)

// name is the name of the file in messages to operators.
const name = "the bridges' database"

//go:embed migrations/*.sql
var embedded embed.FS

// layout returns the migrations, which are only ever appended to.
func layout() storage.Layout {
	sub, err := fs.Sub(embedded, "migrations")
	if err != nil {
		panic(err) // cannot happen: the name is valid
	}
	return storage.Layout{Name: name, Migrations: sub}
}

// idBits is the number of bits of a row's number for the ID of an entry within its queue; the
// queue's number is above them.
const idBits = 43

// rowID returns the number of a row.
func rowID(queue int64, id uint64) int64 { return queue<<idBits | int64(id) }

// entryID returns the ID of an entry from the row's number.
func entryID(row int64) uint64 { return uint64(row) & (1<<idBits - 1) }

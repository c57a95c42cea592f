package store

import (
	"embed"
	"io/fs"

	"signalbox/broker/storage"
)

// name is what the file is called in messages to operators.
const name = "the streams' database"

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

// sequenceBits is how much of a block's number is its sequence number within the
// stream; the stream's number is above.
const sequenceBits = 40

// blockID gives the number of a block.
func blockID(stream, sequence int64) int64 { return stream<<sequenceBits | sequence }

// sequence gives the sequence number of a block.
func sequence(block int64) int64 { return block & (1<<sequenceBits - 1) }

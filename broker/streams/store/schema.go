package store

import (
	"embed"
	"io/fs"

	"signalbox/broker/storage"
)

// databaseName is the name of the file in messages to operators.
const databaseName = "the streams' database"

//go:embed migrations/*.sql
var embedded embed.FS

// layout returns the migrations. They must only ever be appended to.
func layout() storage.Layout {
	sub, err := fs.Sub(embedded, "migrations")
	if err != nil {
		panic(err) // the name above is valid
	}
	return storage.Layout{Name: databaseName, Migrations: sub}
}

// sequenceBits is the width of the sequence number in a block's id; the bits
// above are the id of the stream.
const sequenceBits = 40

// blockID returns the id of a block.
func blockID(stream, sequence int64) int64 { return stream<<sequenceBits | sequence }

// sequence returns the sequence number of a block.
func sequence(block int64) int64 { return block & (1<<sequenceBits - 1) }

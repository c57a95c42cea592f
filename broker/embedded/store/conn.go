package store

import (
	"context"
	"database/sql/driver"

	"signalbox/broker/storage"
)

// disk is the connection to broker.db of the committer.
type disk struct{ *storage.Conn }

// openDisk connects to a file and prepares all statements.
func openDisk(ctx context.Context, f *storage.File, d storage.Durability) (disk, error) {
	c, err := f.Connect(ctx, d, texts[:])
	return disk{c}, err
}

// exec runs a prepared statement within a transaction. Integers must be int64.
func (k disk) exec(s statement, values ...driver.Value) error { return k.Exec(int(s), values...) }

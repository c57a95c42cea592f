package db

import (
	"bufio"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
)

// SharedKeyID is what the key of a database that is shared is sealed for by the caller.
const SharedKeyID = "shared-key"

// maxSharedKey bounds the key in a snapshot in bytes.
const maxSharedKey = 4096

// KeyCarrier converts the key of the secrets between the form in which this machine stores it, sealed
// by the caller for SharedKeyID, and that in which a snapshot carries it to other nodes.
type KeyCarrier interface {
	Export(stored []byte) (carried []byte, err error)
	Import(carried []byte) (stored []byte, err error)
}

// SetKeyCarrier sets what converts the key. It is called before the first snapshot.
func (d *DB) SetKeyCarrier(c KeyCarrier) { d.carrier = c }

// SharedKey returns the key that the secrets of brokers, nodes and the audit log are sealed
// with, itself sealed by the caller for SharedKeyID. It is nil if the caller seals them with its own
// key, as in a database that was never shared.
func (d *DB) SharedKey(ctx context.Context) (key []byte, err error) {
	has, err := d.hasKey(ctx)
	if err == nil && has {
		err = d.ro.QueryRowContext(ctx, "SELECT key FROM local_state").Scan(&key)
	}
	return key, wrap("read the key of the database", err)
}

// hasKey reports whether the schema has a key; that of a View may be older.
func (d *DB) hasKey(ctx context.Context) (bool, error) {
	const q = "SELECT EXISTS (SELECT 1 FROM pragma_table_info('local_state') WHERE name = 'key')"
	return exists(ctx, d.ro, q)
}

// PutSharedKey stores the first key of a database that is not shared yet, and the secrets, which
// ListSealed has returned, sealed with it.
func (d *DB) PutSharedKey(ctx context.Context, key []byte, all []Sealed) error {
	return d.write(ctx, "store the key of the database", func(tx *writeTx) error {
		if tx.recorded != nil {
			return fmt.Errorf("%w: the database is shared already", ErrInUse)
		}
		if err := affected(tx.ExecContext(ctx, "UPDATE local_state SET key = ? WHERE key IS NULL", key)); err != nil {
			return err
		}
		return putSealed(ctx, tx, all)
	})
}

// exportKey returns the key as a snapshot carries it, nil for none.
func (d *DB) exportKey(ctx context.Context) ([]byte, error) {
	stored, err := d.SharedKey(ctx)
	if err != nil || stored == nil {
		return nil, err
	}
	if d.carrier == nil {
		return nil, errors.New("the key of the database cannot be read")
	}
	return d.carrier.Export(stored)
}

// importKey reads the head of a snapshot and returns the key as it is stored, nil for none.
func (d *DB) importKey(r *bufio.Reader) ([]byte, error) {
	format, err := r.ReadByte()
	if err != nil {
		return nil, fmt.Errorf("read the snapshot: %w", err)
	}
	if format != snapshotFormat {
		return nil, fmt.Errorf("the snapshot has the format %d, which this release does not know: have all nodes run the same release", format)
	}
	n, err := binary.ReadUvarint(r)
	if err != nil || n > maxSharedKey {
		return nil, fmt.Errorf("the snapshot has no valid key: %w", errors.Join(err, errEntry))
	}
	if n == 0 {
		return nil, nil
	}
	carried := make([]byte, n)
	if _, err := io.ReadFull(r, carried); err != nil {
		return nil, fmt.Errorf("read the snapshot: %w", err)
	}
	if d.carrier == nil {
		return nil, errors.New("the key of the database cannot be stored")
	}
	return d.carrier.Import(carried)
}

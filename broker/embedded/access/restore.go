package access

import (
	"bufio"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"hash"
	"hash/crc32"
	"io"
	"iter"

	"signalbox/broker/dynsec"
)

// ImportState replaces everything by the content of a [Snapshot], as the state after the
// change of the given index, all or nothing. It returns the clients to disconnect: those
// whose rights or credentials differ from before. They have the new rights already.
//
// The snapshot is read and checked completely before anything is changed. Log-ins wait
// while it is committed and published, so that none is checked against the record of one
// state and the password of the other.
func (c *Control) ImportState(ctx context.Context, index uint64, r io.Reader) ([]dynsec.Disconnect, error) {
	changes, err := readSnapshot(r)
	if err != nil {
		return nil, fmt.Errorf("read a snapshot of the access control: %w", err)
	}
	next, err := dynsec.Load(records(changes))
	if err != nil {
		return nil, fmt.Errorf("read a snapshot of the access control: %w: %w", errDamaged, err)
	}
	c.committing.Lock()
	defer c.committing.Unlock()
	disconnects, err := c.replacedDisconnects(ctx, next, changes)
	if err != nil {
		return nil, classify(err)
	}
	if err := c.replaceState(ctx, next, batch{changes: changes, replaces: true, index: index}, disconnects); err != nil {
		return nil, err
	}
	return disconnects, nil
}

// replaceState stores and publishes a whole state. The caller holds committing.
func (c *Control) replaceState(ctx context.Context, next *dynsec.State, b batch, disconnects []dynsec.Disconnect) error {
	err := c.store.transact(ctx, b, func(commit func() error) error {
		c.credentials.replacing.Lock()
		defer c.credentials.replacing.Unlock()
		if err := commit(); err != nil {
			return err
		}
		c.publish(next, []dynsec.Change{dynsec.Clear{}}, disconnects)
		return nil
	})
	if err != nil {
		return classify(err)
	}
	c.initialised.Store(len(b.changes) > 0)
	c.failed = 0
	c.applied.set(b.index)
	return nil
}

// replacedDisconnects returns the clients to disconnect when a state is replaced.
func (c *Control) replacedDisconnects(ctx context.Context, next *dynsec.State, changes []dynsec.Change) ([]dynsec.Disconnect, error) {
	before, err := c.store.passwords(ctx)
	if err != nil {
		return nil, fmt.Errorf("read the passwords: %w", err)
	}
	for put := range only[dynsec.PutClient](changes) {
		if put.Password != nil && before[put.Username] == *put.Password {
			delete(before, put.Username)
		}
	}
	return c.state.Load().Replaced(next, func(username string) bool {
		_, other := before[username]
		return other
	}), nil
}

// records returns the records that the changes of a snapshot put.
func records(changes []dynsec.Change) (r dynsec.LoadRecords) {
	r.Defaults = dynsec.DefaultDefaults()
	r.Roles = recordsOf(changes, func(p dynsec.PutRole) dynsec.RoleRecord { return p.RoleRecord })
	r.Groups = recordsOf(changes, func(p dynsec.PutGroup) dynsec.GroupRecord { return p.GroupRecord })
	r.Clients = recordsOf(changes, func(p dynsec.PutClient) dynsec.ClientRecord { return p.ClientRecord })
	for _, change := range changes {
		switch put := change.(type) {
		case dynsec.PutDefaults:
			r.Defaults = put.Defaults
		case dynsec.PutAnonymousGroup:
			r.AnonymousGroup = put.GroupName
		case dynsec.PutChangeIndex:
			r.ChangeIndex = put.Index
		}
	}
	return r
}

func recordsOf[C dynsec.Change, R any](changes []dynsec.Change, record func(C) R) iter.Seq[R] {
	return func(yield func(R) bool) {
		for put := range only[C](changes) {
			if !yield(record(put)) {
				return
			}
		}
	}
}

// only yields the changes of one kind.
func only[C dynsec.Change](changes []dynsec.Change) iter.Seq[C] {
	return func(yield func(C) bool) {
		for _, change := range changes {
			if c, ok := change.(C); ok && !yield(c) {
				return
			}
		}
	}
}

// readSnapshot reads a snapshot to its end and returns the changes that create its state.
func readSnapshot(from io.Reader) ([]dynsec.Change, error) {
	r := &snapshotReader{from: bufio.NewReader(from), sum: crc32.New(castagnoli)}
	if version, err := r.ReadByte(); err != nil {
		return nil, damaged(err)
	} else if version != format {
		return nil, fmt.Errorf("format %d: %w", version, errFormat)
	}
	var changes []dynsec.Change
	for {
		change, err := r.record()
		if err != nil {
			return nil, damaged(err)
		}
		if change == nil {
			return changes, r.finish()
		}
		changes = append(changes, change)
	}
}

// damaged turns the early end of a snapshot into ErrDamaged.
func damaged(err error) error {
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		return fmt.Errorf("%w: truncated", errDamaged)
	}
	return err
}

// snapshotReader reads and computes the checksum.
type snapshotReader struct {
	from *bufio.Reader
	sum  hash.Hash32
}

// ReadByte reads one byte.
func (r *snapshotReader) ReadByte() (byte, error) {
	b, err := r.from.ReadByte()
	if err == nil {
		r.sum.Write([]byte{b})
	}
	return b, err
}

// record reads the next record, nil at the end.
func (r *snapshotReader) record() (dynsec.Change, error) {
	n, err := binary.ReadUvarint(r)
	if err != nil {
		return nil, err
	}
	if n > maxRecord {
		return nil, fmt.Errorf("%w: a record of %d bytes", errDamaged, n)
	}
	if n == 0 {
		return nil, nil
	}
	b, err := io.ReadAll(io.LimitReader(r.from, int64(n)))
	if err != nil {
		return nil, err
	}
	if uint64(len(b)) < n {
		return nil, io.ErrUnexpectedEOF
	}
	r.sum.Write(b)
	d := &decoder{b: b}
	return d.change(), d.end()
}

// finish verifies the checksum and that nothing follows it.
func (r *snapshotReader) finish() error {
	want := r.sum.Sum32()
	var got [4]byte
	if _, err := io.ReadFull(r.from, got[:]); err != nil {
		return damaged(err)
	}
	if binary.BigEndian.Uint32(got[:]) != want {
		return fmt.Errorf("%w: wrong checksum", errDamaged)
	}
	if _, err := r.from.ReadByte(); err == nil {
		return fmt.Errorf("%w: data after its end", errDamaged)
	} else if !errors.Is(err, io.EOF) {
		return err
	}
	return nil
}

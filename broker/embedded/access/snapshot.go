package access

import (
	"bufio"
	"context"
	"database/sql"
	"encoding/binary"
	"errors"
	"fmt"
	"hash"
	"hash/crc32"
	"io"
	"iter"

	"signalbox/broker/dynsec"
)

// maxRecord bounds one record of a snapshot in bytes. No command that creates one can be
// larger, because no MQTT packet is.
const maxRecord = 256 << 20

// castagnoli is the polynomial of a snapshot's checksum.
var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// Snapshot is the stored access control as of one moment, password hashes included, while
// the state changes on. It is a read transaction that stays open, so SQLite's write-ahead
// log grows meanwhile. Snapshots of equal states are equal byte by byte, whatever their
// history. It must be released, before its Control is closed.
type Snapshot struct {
	tx    *sql.Tx
	index uint64
}

// Snapshot returns a snapshot of the current state. The context bounds its creation only.
func (c *Control) Snapshot(ctx context.Context) (*Snapshot, error) {
	tx, err := c.store.bulk.BeginTx(context.WithoutCancel(ctx), &sql.TxOptions{ReadOnly: true})
	if err != nil {
		return nil, fmt.Errorf("begin a snapshot: %w", err)
	}
	index, err := readApplied(ctx, tx) // the first read fixes the moment
	if err != nil {
		return nil, errors.Join(fmt.Errorf("begin a snapshot: %w", err), tx.Rollback())
	}
	return &Snapshot{tx: tx, index: uint64(index)}, nil
}

// Index returns the index of the last change in the snapshot; see [Control.AppliedIndex].
func (s *Snapshot) Index() uint64 { return s.index }

// Release ends the snapshot. Further calls have no effect.
func (s *Snapshot) Release() {
	s.tx.Rollback() //nolint:errcheck // read only
}

// WriteTo writes the snapshot as ImportState reads it: the version, each record after its
// length, a zero, and a CRC-32C of all that. It does not contain its index: two brokers
// with equal states may have reached them by snapshots of different indexes.
func (s *Snapshot) WriteTo(w io.Writer) (int64, error) {
	out := &snapshotWriter{to: bufio.NewWriter(w), sum: crc32.New(castagnoli)}
	out.write([]byte{format})
	l := &loader{ctx: context.Background(), tx: s.tx}
	for change := range l.changes() {
		if out.record(change); out.err != nil {
			break
		}
	}
	if err := errors.Join(l.err, out.err); err != nil {
		return out.written, fmt.Errorf("write a snapshot: %w", err)
	}
	return out.finish()
}

// snapshotWriter writes, counts bytes and computes the checksum. After the first error,
// which it keeps, it does nothing more.
type snapshotWriter struct {
	to      *bufio.Writer
	sum     hash.Hash32
	buffer  []byte
	written int64
	err     error
}

func (w *snapshotWriter) write(b []byte) {
	if w.err != nil {
		return
	}
	w.sum.Write(b)
	var n int
	n, w.err = w.to.Write(b)
	w.written += int64(n)
}

func (w *snapshotWriter) record(change dynsec.Change) {
	w.buffer = appendChange(w.buffer[:0], change)
	w.write(binary.AppendUvarint(nil, uint64(len(w.buffer))))
	w.write(w.buffer)
}

func (w *snapshotWriter) finish() (int64, error) {
	w.write([]byte{0})
	w.write(binary.BigEndian.AppendUint32(nil, w.sum.Sum32()))
	if err := errors.Join(w.err, w.to.Flush()); err != nil {
		return w.written, fmt.Errorf("write a snapshot: %w", err)
	}
	return w.written, nil
}

// changes yields the changes that create the stored state, in order; none for a broker that
// was never initialised.
func (l *loader) changes() iter.Seq[dynsec.Change] {
	return func(yield func(dynsec.Change) bool) {
		settings, err := l.settings()
		if errors.Is(err, sql.ErrNoRows) {
			return
		}
		if l.err = err; err != nil {
			return
		}
		_ = all(l.roles(), yield, func(r dynsec.RoleRecord) dynsec.Change { return dynsec.PutRole{RoleRecord: r} }) &&
			all(l.groups(), yield, func(g dynsec.GroupRecord) dynsec.Change { return dynsec.PutGroup{GroupRecord: g} }) &&
			l.clientChanges(yield) &&
			yield(dynsec.PutDefaults{Defaults: settings.Defaults}) &&
			yield(dynsec.PutAnonymousGroup{GroupName: settings.AnonymousGroup}) &&
			yield(dynsec.PutChangeIndex{Index: settings.ChangeIndex})
	}
}

// clientChanges yields the clients with their password hashes.
func (l *loader) clientChanges(yield func(dynsec.Change) bool) bool {
	passwords := l.cursor(passwordTable, func(text []byte) string { return string(text) })
	defer passwords.stop()
	return all(l.clients(), yield, func(c dynsec.ClientRecord) dynsec.Change {
		put := dynsec.PutClient{ClientRecord: c}
		for _, m := range passwords.membersOf(c.Username) {
			put.Password = &m.name
		}
		return put
	})
}

// all yields every record as a change and reports whether the caller wants more.
func all[T any](records iter.Seq[T], yield func(dynsec.Change) bool, change func(T) dynsec.Change) bool {
	for r := range records {
		if !yield(change(r)) {
			return false
		}
	}
	return true
}

package store

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math"

	"signalbox/broker/embedded/engine"
	"signalbox/broker/storage"
)

// frameBytes bounds a frame of a snapshot. A message has at most 256 MiB [MQTT-2.1.4].
const frameBytes = 512 << 20

// Restore replaces a part of what is stored by a snapshot, and the index by another,
// whatever it was. It does so in one transaction, after everything submitted before,
// and the transaction is on the disk when Restore returns: the log before the snapshot
// may be deleted by then. An error means that nothing has changed. Restore does not
// read beyond the end of the snapshot.
//
// After Everything, Load returns what is stored. Of RetainedOnly, the result is the
// messages that are retained now. They have new IDs, returned by number, because the
// IDs of the snapshot are those of another broker. Messages that were retained and are
// queued stay queued. number is called for RetainedOnly only, and must not call the
// store.
func (s *Store) Restore(ctx context.Context, index uint64, part Part, r io.Reader, number func() uint64) ([]*engine.Message, error) {
	if index == 0 || index > math.MaxInt64 || !part.valid() {
		return nil, fmt.Errorf("restore the broker's messages: there is no index %d or no part %d", index, part)
	}
	in := &snapshotReader{ctx: ctx, at: position{index: index, part: part}, r: r, number: number}
	err := s.send(ctx, func(c *committer) error { return c.restore(in) })
	if err != nil {
		return nil, fmt.Errorf("restore the broker's messages: %w", err)
	}
	return in.retained, nil
}

// ReadRetained reads a snapshot of RetainedOnly without restoring it. It does not read beyond the end of the
// snapshot. The messages have no IDs.
func ReadRetained(ctx context.Context, r io.Reader) ([]*engine.Message, error) {
	in := &snapshotReader{
		ctx: ctx, at: position{part: RetainedOnly}, r: r, number: func() uint64 { return 0 }, topics: map[string]struct{}{},
	}
	err := in.each(func(group []*engine.Changes) error {
		for _, changes := range group {
			if err := in.renumber(changes); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("read retained messages: %w", err)
	}
	return in.retained, nil
}

// snapshotReader reads the snapshot that is being restored.
type snapshotReader struct {
	ctx      context.Context // checked between two groups
	at       position
	r        io.Reader
	buf      bytes.Buffer
	number   func() uint64
	retained []*engine.Message   // of RetainedOnly, with their new IDs
	topics   map[string]struct{} // of those
}

func (c *committer) restore(in *snapshotReader) error {
	if err := c.writable(); err != nil {
		return err
	}
	if err := c.loadCounts(in.ctx); err != nil {
		return err
	}
	defer c.resetDurability(c.conn.Durability())
	if err := c.conn.SetDurability(storage.Full); err != nil {
		return err
	}
	if err := c.replace(in); err != nil {
		return err
	}
	c.shared.Store(&in.at)
	c.commits.ScheduleTidy()
	return nil
}

// resetDurability sets the durability that was in force before. If that fails, the
// stricter one stays.
func (c *committer) resetDurability(d storage.Durability) {
	if err := c.conn.SetDurability(d); err != nil {
		c.log.Warn("the durability of the broker's messages could not be reset, and stays at its strictest", slog.Any("error", err))
	}
}

// replace runs the transaction of Restore. For Everything the reference counts begin
// empty, as the tables do.
func (c *committer) replace(in *snapshotReader) error {
	if in.at.part == Everything {
		return c.rewrite(in.ctx, newRefCounts(), c.counts, &in.at, func(tx storage.Tx) error { return c.replaceEverything(tx, in) })
	}
	return c.rewrite(in.ctx, c.counts, nil, &in.at, func(tx storage.Tx) error { return c.replaceRetained(tx, in) })
}

// replaceEverything replaces all rows by those of the snapshot.
func (c *committer) replaceEverything(tx storage.Tx, in *snapshotReader) error {
	for _, q := range []string{
		`DELETE FROM queue`, `DELETE FROM message`, `DELETE FROM incoming`, `DELETE FROM subscription`, `DELETE FROM session`,
	} {
		if err := tx.Run(q); err != nil {
			return err
		}
	}
	return in.each(func(group []*engine.Changes) error { return c.writeStep(tx, group) })
}

// replaceRetained sets the retained messages of the snapshot and clears all other
// topics.
func (c *committer) replaceRetained(tx storage.Tx, in *snapshotReader) error {
	in.topics = map[string]struct{}{}
	err := in.each(func(group []*engine.Changes) error {
		for _, changes := range group {
			if err := in.renumber(changes); err != nil {
				return err
			}
		}
		return c.writeStep(tx, group)
	})
	if err != nil {
		return err
	}
	return c.clear(tx, in.topics)
}

// renumber assigns new IDs to the messages of a snapshot.
func (in *snapshotReader) renumber(changes *engine.Changes) error {
	if nonEmpty(changes)&^hasRetained != 0 {
		return errDamaged
	}
	for _, r := range changes.Retained {
		if r.Message == nil || r.Message.Topic != r.Topic {
			return errDamaged
		}
		if _, twice := in.topics[r.Topic]; twice {
			return errDamaged
		}
		in.topics[r.Topic] = struct{}{}
		r.Message.ID = in.number()
		in.retained = append(in.retained, r.Message)
	}
	return nil
}

// clear clears all retained messages except those of some topics.
func (c *committer) clear(tx storage.Tx, but map[string]struct{}) error {
	var others []engine.RetainedRecord
	for topic := range c.counts.retained {
		if _, stays := but[topic]; !stays {
			others = append(others, engine.RetainedRecord{Topic: topic})
		}
	}
	for len(others) > 0 {
		n := min(len(others), groupChanges)
		if err := c.writeStep(tx, []*engine.Changes{{Retained: others[:n]}}); err != nil {
			return err
		}
		others = others[n:]
	}
	return nil
}

// readHeader reads what precedes the groups. The IDs of RetainedOnly are those of
// another broker, so they are ignored.
func (in *snapshotReader) readHeader() error {
	var head [headBytes]byte
	if _, err := io.ReadFull(in.r, head[:]); err != nil {
		return unexpectedEOF(err)
	}
	last := lastIDs{binary.BigEndian.Uint64(head[2:]), binary.BigEndian.Uint64(head[10:])}
	if head[0] != snapshotVersion || head[1] != byte(in.at.part) || max(last.message, last.session) > math.MaxInt64 {
		return errDamaged
	}
	if in.at.part == Everything {
		in.at.last = last
	}
	return nil
}

// each calls f with each group, up to the end of the snapshot.
func (in *snapshotReader) each(f func([]*engine.Changes) error) error {
	if err := in.readHeader(); err != nil {
		return err
	}
	for n := uint64(0); ; n++ {
		if err := context.Cause(in.ctx); err != nil {
			return err
		}
		frame, err := in.frame()
		if err != nil {
			return err
		}
		if len(frame) == 0 {
			return in.end(n)
		}
		group, err := DecodeChanges(frame)
		if err != nil {
			return err
		}
		if err := f(group); err != nil {
			return err
		}
	}
}

// frame returns the next frame, in memory that is reused. The memory grows with what
// was read, not with the length that the frame claims.
func (in *snapshotReader) frame() ([]byte, error) {
	var length [4]byte
	if _, err := io.ReadFull(in.r, length[:]); err != nil {
		return nil, unexpectedEOF(err)
	}
	n := binary.BigEndian.Uint32(length[:])
	if n > frameBytes {
		return nil, errDamaged
	}
	in.buf.Reset()
	if _, err := io.CopyN(&in.buf, in.r, int64(n)); err != nil {
		return nil, unexpectedEOF(err)
	}
	return in.buf.Bytes(), nil
}

// end reads the number of frames and compares it.
func (in *snapshotReader) end(n uint64) error {
	var count [8]byte
	if _, err := io.ReadFull(in.r, count[:]); err != nil {
		return unexpectedEOF(err)
	}
	if binary.BigEndian.Uint64(count[:]) != n {
		return errDamaged
	}
	return nil
}

// unexpectedEOF returns err, with io.EOF replaced by io.ErrUnexpectedEOF.
func unexpectedEOF(err error) error {
	if errors.Is(err, io.EOF) {
		return io.ErrUnexpectedEOF
	}
	return err
}

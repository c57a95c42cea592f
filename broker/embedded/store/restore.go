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

// frameBytes is how long a frame of a snapshot may be: one message is at most 256
// MiB [MQTT-2.1.4].
const frameBytes = 512 << 20

// Restore replaces a part of what is stored by that of a snapshot, and the index
// by another, whatever it was. All is done in one transaction, after what was
// submitted before; it is on the disk when Restore returns. With an error nothing
// has changed. It reads not beyond the end of the snapshot.
//
// Of Everything, a Load tells afterwards what is stored. Of RetainedOnly, the
// result are the messages that are retained now; they have new numbers, given by
// number, as those of the snapshot count elsewhere. Messages that were retained
// and are queued stay queued. number is called for RetainedOnly alone, and must not
// call the store.
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

// snapshotReader is a snapshot that is being restored.
type snapshotReader struct {
	ctx      context.Context // ends it between two groups
	at       position
	r        io.Reader
	buf      bytes.Buffer
	number   func() uint64
	retained []*engine.Message   // of RetainedOnly, with their new numbers
	topics   map[string]struct{} // of those
}

func (c *committer) restore(in *snapshotReader) error {
	if err := c.writable(); err != nil {
		return err
	}
	if err := c.loadCounts(in.ctx); err != nil {
		return err
	}
	defer c.resetDurability(c.disk.Durability())
	if err := c.disk.SetDurability(storage.Full); err != nil {
		return err
	}
	if err := c.replace(in); err != nil {
		return err
	}
	c.shared.Store(&in.at)
	c.commits.Committed()
	return nil
}

// resetDurability goes back to a durability. Where that fails, a better one stays.
func (c *committer) resetDurability(d storage.Durability) {
	if err := c.disk.SetDurability(d); err != nil {
		c.log.Warn("the broker's messages stay as durable as they can be", slog.Any("err", err))
	}
}

// replace makes the transaction of a restoration. The ledger of Everything begins
// empty, as the tables do.
func (c *committer) replace(in *snapshotReader) error {
	if in.at.part == Everything {
		return c.rewrite(in.ctx, newRefCounts(), c.counts, &in.at, func() error { return c.replaceEverything(in) })
	}
	return c.rewrite(in.ctx, c.counts, nil, &in.at, func() error { return c.replaceRetained(in) })
}

// replaceEverything puts a snapshot of everything in place of what is stored.
func (c *committer) replaceEverything(in *snapshotReader) error {
	for _, q := range []string{
		`DELETE FROM queue`, `DELETE FROM message`, `DELETE FROM incoming`, `DELETE FROM subscription`, `DELETE FROM session`,
	} {
		if err := c.disk.Run(q); err != nil {
			return err
		}
	}
	return in.each(c.writeStep)
}

// replaceRetained retains what a snapshot has and clears all other topics.
func (c *committer) replaceRetained(in *snapshotReader) error {
	in.topics = map[string]struct{}{}
	err := in.each(func(group []*engine.Changes) error {
		for _, changes := range group {
			if err := in.renumber(changes); err != nil {
				return err
			}
		}
		return c.writeStep(group)
	})
	if err != nil {
		return err
	}
	return c.clear(in.topics)
}

// renumber gives the messages of a snapshot new numbers.
func (in *snapshotReader) renumber(changes *engine.Changes) error {
	if holds(changes)&^hasRetained != 0 {
		return ErrDamaged
	}
	for _, r := range changes.Retained {
		if r.Message == nil || r.Message.Topic != r.Topic {
			return ErrDamaged
		}
		if _, twice := in.topics[r.Topic]; twice {
			return ErrDamaged
		}
		in.topics[r.Topic] = struct{}{}
		r.Message.ID = in.number()
		in.retained = append(in.retained, r.Message)
	}
	return nil
}

// clear has all topics retain nothing but some.
func (c *committer) clear(but map[string]struct{}) error {
	var others []engine.RetainedRecord
	for topic := range c.counts.retained {
		if _, stays := but[topic]; !stays {
			others = append(others, engine.RetainedRecord{Topic: topic})
		}
	}
	for len(others) > 0 {
		n := min(len(others), groupChanges)
		if err := c.writeStep([]*engine.Changes{{Retained: others[:n]}}); err != nil {
			return err
		}
		others = others[n:]
	}
	return nil
}

// readHeader reads what comes before the groups. Numbers of RetainedOnly count elsewhere.
func (in *snapshotReader) readHeader() error {
	var head [headBytes]byte
	if _, err := io.ReadFull(in.r, head[:]); err != nil {
		return unexpectedEOF(err)
	}
	last := lastIDs{binary.BigEndian.Uint64(head[2:]), binary.BigEndian.Uint64(head[10:])}
	if head[0] != snapshotVersion || head[1] != byte(in.at.part) || max(last.message, last.session) > math.MaxInt64 {
		return ErrDamaged
	}
	if in.at.part == Everything {
		in.at.last = last
	}
	return nil
}

// each reads the snapshot to its end and calls f with each group.
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

// frame reads a frame, in memory that grows with what comes and is used again.
func (in *snapshotReader) frame() ([]byte, error) {
	var length [4]byte
	if _, err := io.ReadFull(in.r, length[:]); err != nil {
		return nil, unexpectedEOF(err)
	}
	n := binary.BigEndian.Uint32(length[:])
	if n > frameBytes {
		return nil, ErrDamaged
	}
	in.buf.Reset()
	if _, err := io.CopyN(&in.buf, in.r, int64(n)); err != nil {
		return nil, unexpectedEOF(err)
	}
	return in.buf.Bytes(), nil
}

// end reads how many frames there were.
func (in *snapshotReader) end(n uint64) error {
	var count [8]byte
	if _, err := io.ReadFull(in.r, count[:]); err != nil {
		return unexpectedEOF(err)
	}
	if binary.BigEndian.Uint64(count[:]) != n {
		return ErrDamaged
	}
	return nil
}

// unexpectedEOF makes of the end of a reader, which comes too early, an error that says so.
func unexpectedEOF(err error) error {
	if errors.Is(err, io.EOF) {
		return io.ErrUnexpectedEOF
	}
	return err
}

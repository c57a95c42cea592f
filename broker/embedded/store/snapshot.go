package store

import (
	"context"
	"database/sql"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"iter"

	"signalbox/broker/embedded/engine"
)

// Part is what a snapshot contains.
type Part byte

// Everything is all sessions with their subscriptions and queues, and all messages.
// RetainedOnly is the retained messages.
const (
	Everything   Part = 1
	RetainedOnly Part = 2
)

func (p Part) valid() bool { return p == Everything || p == RetainedOnly }

// snapshotVersion is the first byte of a snapshot. The part follows, and the greatest
// IDs of a message and a session, in eight bytes each.
const (
	snapshotVersion = 1
	headBytes       = 18
)

// frameWeight is the approximate size of a frame of a snapshot, in bytes. A frame is
// larger only if it has one large message.
const frameWeight = 1 << 20

// Snapshot is what was stored at one moment: a read transaction on a connection of its
// own. Until it is released, the WAL of the file grows with each commit. It is used by
// one goroutine at a time.
type Snapshot struct {
	db    *sql.DB
	conn  *sql.Conn
	part  Part
	index uint64
	last  lastIDs
}

// Snapshot returns a snapshot of what is stored, which later changes do not alter. It
// does not wait for a writer. The snapshot must be released before the file is closed.
func (s *Store) Snapshot(ctx context.Context, part Part) (*Snapshot, error) {
	if !part.valid() {
		return nil, fmt.Errorf("take a snapshot of the broker's messages: there is no part %d", part)
	}
	v := &Snapshot{db: s.conn.File().Readers(), part: part}
	if err := v.begin(ctx); err != nil {
		v.Release()
		return nil, fmt.Errorf("take a snapshot of the broker's messages: %w", err)
	}
	return v, nil
}

// begin opens a connection and begins its transaction, which SQLite does with the first
// query.
func (v *Snapshot) begin(ctx context.Context) (err error) {
	if v.conn, err = v.db.Conn(ctx); err != nil {
		return err
	}
	if _, err := v.conn.ExecContext(ctx, `BEGIN`); err != nil {
		return err
	}
	at, err := readPosition(ctx, v.conn)
	if err != nil {
		return err
	}
	v.index = at.index
	v.last, err = readLastIDs(ctx, v.conn, at)
	return err
}

// Index returns the index of the shared log at which the snapshot was taken.
func (v *Snapshot) Index() uint64 { return v.index }

// Release releases the snapshot. It may be called more than once.
func (v *Snapshot) Release() {
	if v.conn != nil {
		// Closing the connection ends its transaction too, so an error of either can
		// be ignored.
		v.conn.ExecContext(context.Background(), `ROLLBACK`) //nolint:errcheck
		v.conn.Close()                                       //nolint:errcheck
	}
	v.db.Close() //nolint:errcheck
	v.conn = nil
}

// WriteTo writes the snapshot for Restore. It keeps only a frame of it in memory.
func (v *Snapshot) WriteTo(w io.Writer) (int64, error) {
	if v.conn == nil {
		return 0, errors.New("write a snapshot of the broker's messages: it was released")
	}
	out := &frames{w: w, group: []*engine.Changes{{}}}
	err := v.write(out)
	if err != nil {
		err = fmt.Errorf("write a snapshot of the broker's messages: %w", err)
	}
	return out.written, err
}

func (v *Snapshot) write(out *frames) error {
	head := []byte{snapshotVersion, byte(v.part)}
	head = binary.BigEndian.AppendUint64(head, v.last.message)
	head = binary.BigEndian.AppendUint64(head, v.last.session)
	if err := out.write(head); err != nil {
		return err
	}
	steps := []func(*frames) error{v.writeSessions, v.writeSubscriptions, v.writeIncoming, v.writeMessages}
	if v.part == RetainedOnly {
		steps = []func(*frames) error{v.writeRetained}
	}
	for _, step := range steps {
		if err := step(out); err != nil {
			return err
		}
	}
	return out.end()
}

func (v *Snapshot) writeSessions(out *frames) error {
	c := out.group[0]
	return eachSession(context.Background(), v.conn, func(r engine.SessionRecord) error {
		c.PutSessions = append(c.PutSessions, r)
		return out.added(weighSession(&r))
	})
}

func (v *Snapshot) writeSubscriptions(out *frames) error {
	c := out.group[0]
	return eachSubscription(context.Background(), v.conn, func(r engine.SubscriptionRecord) error {
		c.Subscribed = append(c.Subscribed, r)
		return out.added(len(r.Filter))
	})
}

func (v *Snapshot) writeIncoming(out *frames) error {
	c := out.group[0]
	return eachIncoming(context.Background(), v.conn, func(r engine.IncomingRecord) error {
		c.Received = append(c.Received, r)
		return out.added(0)
	})
}

func weighSession(r *engine.SessionRecord) int {
	w := len(r.ClientID) + len(r.Username) + len(r.Address)
	if r.Will != nil {
		w += len(r.Will.Topic) + len(r.Will.Payload) + len(r.Will.Properties)
	}
	return w
}

// writeMessages writes messages in order of IDs, each with the queue rows that refer to
// it, so that both tables are read once, side by side. A message with more rows than fit
// into a frame is in each of its frames.
func (v *Snapshot) writeMessages(out *frames) error {
	var failed error // of reading the queues
	next, stop := iter.Pull2(v.queues(&failed))
	defer stop()
	id, row, more := next()
	err := eachMessage(context.Background(), v.conn, Everything, func(m *engine.Message, retained bool) error {
		err := out.message(m, retained)
		for ; more && id <= m.ID && err == nil; id, row, more = next() {
			if id == m.ID {
				row.Message = m
				err = out.queued(row)
			}
		}
		return err
	})
	stop()
	return errors.Join(err, failed)
}

// queues returns the queue rows with the IDs of their messages.
func (v *Snapshot) queues(failed *error) iter.Seq2[uint64, engine.QueueRecord] {
	return func(yield func(uint64, engine.QueueRecord) bool) {
		err := eachQueued(context.Background(), v.conn, func(message uint64, r engine.QueueRecord) error {
			if !yield(message, r) {
				return errStopped
			}
			return nil
		})
		if !errors.Is(err, errStopped) {
			*failed = err
		}
	}
}

// errStopped stops the reading of a table.
var errStopped = errors.New("reading was stopped")

func (v *Snapshot) writeRetained(out *frames) error {
	return eachMessage(context.Background(), v.conn, RetainedOnly, out.message)
}

// frames writes frames: a group of one Changes, preceded by its length in four bytes.
// The end is a length of 0 and the number of frames in eight bytes; without it the
// snapshot was cut short.
type frames struct {
	w       io.Writer
	group   []*engine.Changes // of one Changes, the next frame
	weight  int
	count   uint64
	written int64
	buf     []byte
}

// message adds a message if it is retained.
func (f *frames) message(m *engine.Message, retained bool) error {
	if !retained {
		return nil
	}
	c := f.group[0]
	c.Retained = append(c.Retained, engine.RetainedRecord{Topic: m.Topic, Message: m})
	return f.added(weighMessage(m))
}

func weighMessage(m *engine.Message) int { return len(m.Topic) + len(m.Payload) + len(m.Properties) }

func (f *frames) queued(r engine.QueueRecord) error {
	c, weight := f.group[0], len(r.Share)
	if n := len(c.Enqueued); n == 0 || c.Enqueued[n-1].Message != r.Message {
		weight += weighMessage(r.Message)
	}
	c.Enqueued = append(c.Enqueued, r)
	return f.added(weight)
}

// added counts a record that was added to the frame, and writes the frame when it is
// full.
func (f *frames) added(weight int) error {
	if f.weight += recordWeight + weight; f.weight < frameWeight {
		return nil
	}
	return f.flush()
}

// flush writes the frame and empties it, keeping its memory.
func (f *frames) flush() error {
	if f.weight == 0 {
		return nil
	}
	f.buf = AppendChanges(append(f.buf[:0], 0, 0, 0, 0), f.group)
	binary.BigEndian.PutUint32(f.buf, uint32(len(f.buf)-4))
	f.count++
	f.weight = 0
	c := f.group[0]
	c.PutSessions, c.Subscribed, c.Received = truncated(c.PutSessions), truncated(c.Subscribed), truncated(c.Received)
	c.Enqueued, c.Retained = truncated(c.Enqueued), truncated(c.Retained)
	return f.write(f.buf)
}

func truncated[T any](s []T) []T {
	clear(s)
	return s[:0]
}

func (f *frames) end() error {
	if err := f.flush(); err != nil {
		return err
	}
	return f.write(binary.BigEndian.AppendUint64([]byte{0, 0, 0, 0}, f.count))
}

func (f *frames) write(b []byte) error {
	n, err := f.w.Write(b)
	f.written += int64(n)
	return err
}

package store

import (
	"context"
	"fmt"
	"log/slog"

	"signalbox/broker/embedded/engine"
	"signalbox/broker/storage"
)

// Bounds of one transaction, and of what may be submitted and not committed before
// WaitForCapacity waits, in changes; and the weight of a record without its payload,
// in bytes.
const (
	groupChanges      = 1024
	maxPendingChanges = 16 << 10
	recordWeight      = 64
)

// committer is the state of the goroutine that writes. It runs from Open on.
type committer struct {
	*Store
	plan   *plan
	writer writer
	owed   []*engine.Changes // not stored yet, in order; none unless failing
}

func (s *Store) startCommitter() {
	p := newPlan(nil)
	c := &committer{Store: s, plan: p, writer: writer{plan: p}}
	s.committer = c
	s.commits.Start(storage.Callbacks[*engine.Changes]{
		Prepare: c.prepare, Write: c.write, After: c.after, Omit: c.omit, Refuse: c.refuse, Resume: c.resume, End: c.end,
	})
}

// weigh estimates the memory that changes take, in bytes.
func weigh(c *engine.Changes) int {
	records := len(c.PutSessions) + len(c.Subscribed) + len(c.Unsubscribed) + len(c.Messages) + len(c.Enqueued) +
		len(c.Released) + len(c.Received) + len(c.Retained) + len(c.Dequeued) + len(c.Forgotten) + len(c.EndedSessions)
	w := (1 + records) * recordWeight
	for _, m := range c.Messages {
		w += len(m.Payload)
	}
	return w
}

// prepare builds the plan of a group.
func (c *committer) prepare(group []*engine.Changes) (needed bool, err error) {
	if err := c.loadCounts(context.Background()); err != nil {
		return false, err
	}
	c.plan.build(group)
	return true, nil
}

// write writes a group by its plan.
func (c *committer) write(tx storage.Tx, group []*engine.Changes) error {
	return c.writer.write(tx, group, position{})
}

// after updates the reference counts by the plan of a transaction that was committed. The
// plan of a transaction without a group is empty.
func (c *committer) after(committed bool) {
	if committed {
		c.counts.apply(c.plan)
	}
	c.plan.reset()
}

// loadCounts reads the reference counts from the file unless they are known.
func (c *committer) loadCounts(ctx context.Context) error {
	if c.counts != nil {
		return nil
	}
	_, err := c.load(ctx)
	return err
}

// load reads everything.
func (c *committer) load(ctx context.Context) (*loader, error) {
	l, err := load(ctx, c.conn)
	if err != nil {
		return nil, fmt.Errorf("read the broker's messages: %w", err)
	}
	if l.dropped != (dropped{}) {
		c.log.Warn("orphaned rows were deleted from the broker's database",
			slog.Int("messages", l.dropped.messages), slog.Int("queued", l.dropped.queued), slog.Int("other", l.dropped.other))
	}
	last := c.shared.Load().last
	l.snapshot.LastMessageID = max(l.snapshot.LastMessageID, last.message)
	l.snapshot.LastSessionID = max(l.snapshot.LastSessionID, last.session)
	c.setCounts(l.counts)
	return l, nil
}

// setCounts replaces the reference counts; nil makes the next use read them from the
// file.
func (c *committer) setCounts(counts *refCounts) {
	c.counts, c.plan.counts = counts, counts
}

// omit logs changes that contradict what is stored. They are refused even if they are
// owed, because they would always fail.
func (c *committer) omit(_ []*engine.Changes, err error) error {
	c.log.Error("changes contradict what is stored and were left out", slog.Any("error", err))
	return err
}

// refuse keeps the owed ones of changes that cannot be stored, and returns the others.
func (c *committer) refuse(group []*engine.Changes) (refused []*engine.Changes) {
	for _, changes := range group {
		if changes.Owed {
			c.owed = append(c.owed, changes)
		} else {
			refused = append(refused, changes)
		}
	}
	return refused
}

// resume stores what is owed once the file can be written again. New changes are
// accepted only after that.
func (c *committer) resume() error {
	if err := c.commits.Probe(); err != nil {
		return err
	}
	for len(c.owed) > 0 {
		n := min(len(c.owed), groupChanges)
		rest, err := c.commits.Commit(c.owed[:n:n])
		if err != nil {
			c.owed = append(rest, c.owed[n:]...)
			return err
		}
		c.owed = c.owed[n:]
	}
	c.owed = nil
	return nil
}

// end makes the last attempt to store what is owed.
func (c *committer) end() error {
	c.commits.Recover()
	if len(c.owed) == 0 {
		return nil
	}
	c.commits.Finish(c.owed, c.Err())
	return fmt.Errorf("%d changes to sessions could not be stored: %w", len(c.owed), c.Err())
}

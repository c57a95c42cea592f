package store

import (
	"context"
	"fmt"
	"log/slog"
	"math"

	"signalbox/broker/embedded/engine"
	"signalbox/broker/storage"
)

// Apply stores changes of a log that several brokers share, together with the
// index that they have there: in one transaction, after what was submitted
// before. It returns when they are committed. Indexes grow; one that is applied
// already is passed over. Done of the changes is not called, and no CommitNotifier may
// call Apply.
//
// With an error nothing was stored, whether Owed or not. The caller must stop, and
// may give the same index again. A change that contradicts what is stored, which
// is a fault of this program, is left out and logged, as it would be elsewhere.
func (s *Store) Apply(index uint64, group []*engine.Changes) error {
	if index == 0 || index > math.MaxInt64 {
		return fmt.Errorf("apply changes to the broker's messages: there is no index %d", index)
	}
	err := s.send(context.Background(), func(c *committer) error { return c.apply(index, group) })
	if err != nil {
		return fmt.Errorf("apply changes %d to the broker's messages: %w", index, err)
	}
	return nil
}

// AppliedIndex is the index up to which a shared log is stored; 0 for a broker
// that shares none.
func (s *Store) AppliedIndex() uint64 { return s.shared.Load().index }

// Shared tells which part of the messages a shared log is about, and whether there
// is one: the part that was attached or restored last, or Everything where none
// was.
func (s *Store) Shared() (part Part, ok bool) {
	at := s.shared.Load()
	return at.part, at.index != 0
}

// Attach says that a part of the messages will be shared, before there is anything
// of a log: after a crash it is known that what is here is not to be served. The
// index is the least there is. A broker that shares messages already goes on.
func (s *Store) Attach(ctx context.Context, part Part) error {
	return s.send(ctx, func(c *committer) error {
		at := *c.shared.Load()
		if at.index != 0 && at.part == part {
			return nil
		}
		at.index, at.part = 1, part
		if err := c.disk.Transact(ctx, func() error { return c.disk.exec(putApplied, at.values()...) }); err != nil {
			return fmt.Errorf("begin to share the broker's messages: %w", err)
		}
		c.shared.Store(&at)
		return nil
	})
}

// Detach ends the sharing: the broker keeps what it has and forgets the index, so
// that it can begin with another log. The durability is again that of Options.
func (s *Store) Detach(ctx context.Context) error {
	return s.send(ctx, func(c *committer) error {
		if err := c.disk.SetDurability(s.durability); err != nil {
			return err
		}
		if err := c.disk.Transact(ctx, func() error { return c.disk.exec(deleteApplied) }); err != nil {
			return fmt.Errorf("leave the shared messages: %w", err)
		}
		c.shared.Store(&position{part: Everything})
		return nil
	})
}

// SetDurability says what transactions outlive from now on, until Detach. Where
// Everything is shared, changes need not be kept twice: the log has them until they
// are in a snapshot. After a loss of power what is missing is given to Apply again,
// as the index is missing with it.
func (s *Store) SetDurability(ctx context.Context, d storage.Durability) error {
	return s.send(ctx, func(c *committer) error { return c.disk.SetDurability(d) })
}

// apply commits a group under its index.
func (c *committer) apply(index uint64, group []*engine.Changes) error {
	at := *c.shared.Load()
	if index <= at.index {
		return nil
	}
	if err := c.writable(); err != nil {
		return err
	}
	at.advance(index, group)
	err := c.commit(group, at)
	if storage.Fault(err) {
		err = c.commitValid(group, at)
	}
	if err != nil {
		c.commits.Fail(err)
		return c.Err()
	}
	c.shared.Store(&at)
	c.commits.Committed()
	return nil
}

// writable tries to end a time in which nothing could be stored, and tells why it
// lasts. What is owed comes before all else.
func (c *committer) writable() error {
	c.commits.Recover()
	return c.Err()
}

// commitValid commits a group without those of its changes that contradict what is
// stored.
func (c *committer) commitValid(group []*engine.Changes, at position) error {
	return c.rewrite(context.Background(), c.counts, nil, &at, func() error {
		for i := range group {
			err := c.writeOrRollback(group[i : i+1])
			if err != nil && !storage.Fault(err) {
				return err
			}
			if err != nil {
				c.log.Error("changes contradict what is stored and were left out", slog.Any("err", err), slog.Uint64("index", at.index))
			}
		}
		return nil
	})
}

// writeOrRollback writes a group within a transaction, or nothing of it.
func (c *committer) writeOrRollback(group []*engine.Changes) error {
	if err := c.disk.Run(`SAVEPOINT attempt`); err != nil {
		return err
	}
	err := c.writeStep(group)
	if storage.Fault(err) {
		if undo := c.disk.Run(`ROLLBACK TO attempt`); undo != nil {
			return undo
		}
	} else if err != nil {
		return err
	}
	if end := c.disk.Run(`RELEASE attempt`); end != nil {
		return end
	}
	return err
}

// rewrite makes a transaction of several steps, with which a position is reached.
// Each step changes the ledger at once. Should it come to nothing, another ledger
// counts, or with nil it is read anew. The steps may still change the position.
func (c *committer) rewrite(ctx context.Context, counts, otherwise *refCounts, at *position, steps func() error) error {
	c.setCounts(counts)
	err := c.disk.Transact(ctx, func() error {
		if err := steps(); err != nil {
			return err
		}
		return c.disk.exec(putApplied, at.values()...)
	})
	if err != nil {
		c.setCounts(otherwise)
	}
	return err
}

// writeStep writes a group within rewrite.
func (c *committer) writeStep(group []*engine.Changes) error {
	defer c.plan.reset()
	c.plan.build(group)
	if err := c.writer.write(group, position{}); err != nil {
		return err
	}
	c.counts.apply(c.plan)
	return nil
}

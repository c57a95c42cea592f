package store

import (
	"context"
	"fmt"
	"log/slog"
	"math"

	"signalbox/broker/embedded/engine"
	"signalbox/broker/storage"
)

// Apply stores a group of changes of a log that several brokers share, together with
// its index in the log, in one transaction. It runs after everything submitted before,
// and returns when the transaction is committed. Indexes grow; an index that was
// applied before is skipped. Done of the changes is not called, and no CommitNotifier
// may call Apply.
//
// The result follows from the group and from what is stored, and does not depend on
// how the log is divided into groups. So all brokers that apply the same log store the
// same.
//
// An error means that nothing of the group was stored, Owed or not; the log still has
// it. The caller must stop, and may apply the same index again. Owed changes from
// before are stored first or Apply fails.
//
// A change that contradicts what is stored is a fault of this program, and would stop
// all brokers at the same index for ever. It is left out and logged.
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

// AppliedIndex returns the index up to which a shared log is stored, 0 without one.
func (s *Store) AppliedIndex() uint64 { return s.shared.Load().index }

// Shared returns the part of the messages that a shared log covers, which is the part
// last attached or restored, and reports whether there is a log. Without one the part
// is Everything.
func (s *Store) Shared() (part Part, ok bool) {
	at := s.shared.Load()
	return at.part, at.index != 0
}

// Attach marks a part of the messages as shared, with the lowest index, before
// anything of a log was applied: so after a crash it is known that the messages in this
// file must not be served. It does nothing if that part is shared already.
func (s *Store) Attach(ctx context.Context, part Part) error {
	return s.send(ctx, func(c *committer) error {
		at := *c.shared.Load()
		if at.index != 0 && at.part == part {
			return nil
		}
		at.index, at.part = 1, part
		if err := c.commits.Transact(ctx, func(tx storage.Tx) error { return at.put(tx) }); err != nil {
			return fmt.Errorf("begin to share the broker's messages: %w", err)
		}
		c.shared.Store(&at)
		return nil
	})
}

// Detach ends the sharing: the messages stay and the index is deleted, so that the
// broker can begin with another log. The durability of Options is set before the
// commit, so that everything is on the disk when Detach returns.
func (s *Store) Detach(ctx context.Context) error {
	return s.send(ctx, func(c *committer) error {
		if err := c.conn.SetDurability(s.durability); err != nil {
			return err
		}
		if err := c.commits.Transact(ctx, func(tx storage.Tx) error { return tx.Exec(int(deleteApplied)) }); err != nil {
			return fmt.Errorf("leave the shared messages: %w", err)
		}
		c.shared.Store(&position{part: Everything})
		return nil
	})
}

// SetDurability sets what transactions survive, until Detach. While Everything is
// shared, a commit need not wait for the disk: the log has the changes until they are
// in a snapshot. If a loss of power undoes commits, it undoes their index too, and
// Apply is called with them again.
func (s *Store) SetDurability(ctx context.Context, d storage.Durability) error {
	return s.send(ctx, func(c *committer) error { return c.conn.SetDurability(d) })
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
	err := c.commitAt(group, at)
	if storage.Fault(err) {
		err = c.commitValid(group, at)
	}
	if err != nil {
		c.commits.Fail(err)
		return c.Err()
	}
	c.shared.Store(&at)
	c.commits.ScheduleTidy()
	return nil
}

// commitAt commits a group together with its position in the log.
func (c *committer) commitAt(group []*engine.Changes, at position) error {
	if _, err := c.prepare(group); err != nil {
		return err
	}
	return c.commits.Transact(context.Background(), func(tx storage.Tx) error { return c.writer.write(tx, group, at) })
}

// writable returns nil if the file can be written, after an attempt to recover from
// an earlier failure; the error is why it cannot. Owed changes are stored first.
func (c *committer) writable() error {
	c.commits.Recover()
	return c.Err()
}

// commitValid commits a group change by change, each behind a savepoint in one
// transaction, without the changes that contradict what is stored.
func (c *committer) commitValid(group []*engine.Changes, at position) error {
	return c.rewrite(context.Background(), c.counts, nil, &at, func(tx storage.Tx) error {
		for i := range group {
			err := c.writeOrRollback(tx, group[i:i+1])
			if err != nil && !storage.Fault(err) {
				return err
			}
			if err != nil {
				c.log.Error("changes contradict what is stored and were left out", slog.Any("error", err), slog.Uint64("index", at.index))
			}
		}
		return nil
	})
}

// writeOrRollback writes a group within a transaction. If it contradicts what is stored,
// nothing of it is written.
func (c *committer) writeOrRollback(tx storage.Tx, group []*engine.Changes) error {
	if err := tx.Run(`SAVEPOINT attempt`); err != nil {
		return err
	}
	err := c.writeStep(tx, group)
	if storage.Fault(err) {
		if undo := tx.Run(`ROLLBACK TO attempt`); undo != nil {
			return undo
		}
	} else if err != nil {
		return err
	}
	if end := tx.Run(`RELEASE attempt`); end != nil {
		return end
	}
	return err
}

// rewrite runs a transaction of several steps, at the end of which the position is at,
// which the steps may still change. Each step changes counts at once. If the
// transaction fails, otherwise replaces them; nil makes them be read from the file.
func (c *committer) rewrite(ctx context.Context, counts, otherwise *refCounts, at *position, steps func(storage.Tx) error) error {
	c.setCounts(counts)
	err := c.commits.Transact(ctx, func(tx storage.Tx) error {
		if err := steps(tx); err != nil {
			return err
		}
		return at.put(tx)
	})
	if err != nil {
		c.setCounts(otherwise)
	}
	return err
}

// writeStep writes a group within rewrite.
func (c *committer) writeStep(tx storage.Tx, group []*engine.Changes) error {
	defer c.plan.reset()
	c.plan.build(group)
	if err := c.writer.write(tx, group, position{}); err != nil {
		return err
	}
	c.counts.apply(c.plan)
	return nil
}

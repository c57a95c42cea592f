package store

import (
	"fmt"
	"log/slog"

	"signalbox/broker/storage"
)

// Maximum number of entries of a transaction, and the weight of an item in addition to its
// message, in bytes.
const (
	groupItems = 4096
	itemWeight = 256
)

// item is a submission: an entry, or, with remove, the notification that the queue has entries
// to remove.
type item struct {
	state  *queueState
	record record
	size   int64 // size of the message for the bounds
	remove bool
	settle func(error)
}

// Committed passes on the outcome.
func (i item) Committed(err error) {
	if i.settle != nil {
		i.settle(err)
	}
}

// committer is the state of the goroutine that writes to queues. In addition to commits it purges
// deleted queues, in portions.
type committer struct {
	*Store
	tx             *transaction // under way; nil for none
	purging        []*queueState
	failedRemovals []item  // removals that failed
	encoder        encoder // reused
	dropped        storage.Tally
}

func (s *Store) startCommitter(left []*queueState) {
	c := &committer{Store: s, purging: left, encoder: encoder{offset: s.timeline.Offset()}}
	s.committer = c
	s.commits.Start(storage.Callbacks[item]{
		Prepare: c.prepare, Write: c.write, After: c.after,
		Omit: c.omit, Split: split, Refuse: c.refuse, Resume: c.resume, Work: c.purge, End: c.end,
	})
}

// end commits the removals that failed.
func (c *committer) end() error {
	if err := c.commits.Write(c.failedRemovals); err != nil {
		c.log.Warn("some messages of bridges will be delivered again", slog.Any("error", err))
	}
	return nil
}

// refuse keeps removals for later, and counts the entries that no caller waits for.
func (c *committer) refuse(group []item) []item {
	for _, i := range group {
		switch {
		case i.remove:
			c.failedRemovals = append(c.failedRemovals, i)
		case i.settle == nil:
			i.state.dropped.Add(1)
		}
	}
	return group
}

// split divides a group by queues, so that only queues that contradict the file are affected.
func split(group []item) (parts [][]item) {
	at := map[*queueState]int{}
	for _, i := range group {
		n, known := at[i.state]
		if !known {
			n = len(parts)
			at[i.state], parts = n, append(parts, nil)
		}
		parts[n] = append(parts[n], i)
	}
	return parts
}

// omit logs and counts the entries of a queue that contradicts the file.
func (c *committer) omit(group []item, err error) error {
	j := group[0].state
	c.log.Error("messages of a bridge contradict the database and were dropped", slog.Int64("queue", j.queue), slog.Any("error", err))
	for _, i := range group {
		if !i.remove {
			j.dropped.Add(1)
		}
	}
	return fmt.Errorf("store messages: %w", err)
}

// prepare sets the durability of a group. A removal alone need not be synced: it survives a
// crash of the process, and is synced with the next entries.
func (c *committer) prepare(group []item) (needed bool, err error) {
	if len(group) == 0 {
		return false, nil
	}
	level := storage.Process
	for _, i := range group {
		if !i.remove {
			level = c.options.Durability
			break
		}
	}
	return true, c.conn.SetDurability(level)
}

// write removes and stores entries.
func (c *committer) write(t storage.Tx, group []item) error {
	tx := c.begin(t)
	for _, i := range group {
		if i.remove {
			if err := tx.removeRequested(i.state); err != nil {
				return err
			}
		}
	}
	if err := tx.store(group); err != nil {
		return err
	}
	return tx.saveAll()
}

// resume commits the removals that failed, which frees space, and then checks whether the file
// can be written.
func (c *committer) resume() error {
	if err := c.commits.Write(c.failedRemovals); err != nil {
		return err
	}
	c.failedRemovals = nil
	return c.commits.Probe()
}

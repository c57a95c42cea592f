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

	early     bool // it has an ID, and readers get it already
	delivered bool // it was early and was delivered, so it does not matter that it was not stored
}

// Committed passes on the outcome.
func (i *item) Committed(err error) {
	if i.delivered {
		err = nil
	}
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
	failedRemovals []*item // removals that failed
	encoder        encoder // reused
	dropped        storage.Tally
}

func (s *Store) startCommitter(left []*queueState) {
	c := &committer{Store: s, purging: left, encoder: encoder{offset: s.timeline.Offset()}}
	s.committer = c
	s.commits.Start(storage.Callbacks[*item]{
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
func (c *committer) refuse(group []*item) []*item {
	w := withdrawal{}
	for _, i := range group {
		if i.remove {
			c.failedRemovals = append(c.failedRemovals, i)
			continue
		}
		c.giveUp(i, w)
		if i.settle == nil && !i.delivered {
			i.state.dropped.Add(1)
		}
	}
	return group
}

// giveUp accounts for an entry that is not stored.
func (c *committer) giveUp(i *item, w withdrawal) {
	if i.early {
		i.delivered = c.withdraw(i, w)
	} else {
		i.state.addLate(-1)
	}
}

// split divides a group by queues, so that only queues that contradict the file are affected.
func split(group []*item) (parts [][]*item) {
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
func (c *committer) omit(group []*item, err error) error {
	j := group[0].state
	c.log.Error("messages of a bridge contradict the database and were dropped", slog.Int64("queue", j.queue), slog.Any("error", err))
	w := withdrawal{}
	for _, i := range group {
		if i.remove {
			continue
		}
		if c.giveUp(i, w); !i.delivered {
			j.dropped.Add(1)
		}
	}
	return fmt.Errorf("store messages: %w", err)
}

// prepare collects what is to be written for a group, and sets its durability. A removal alone
// need not be synced: it survives a crash of the process, and is synced with the next entries.
func (c *committer) prepare(group []*item) (needed bool, err error) {
	if len(group) == 0 {
		return false, nil
	}
	tx := c.begin(storage.Tx{})
	stores, writes := tx.collect(group)
	if !writes {
		c.after(true)
		return false, nil
	}
	level := storage.Process
	if stores {
		level, tx.reserves = c.options.Durability, true
	}
	if err := c.conn.SetDurability(level); err != nil {
		c.after(false)
		return false, err
	}
	return true, nil
}

// write removes and stores entries.
func (c *committer) write(t storage.Tx, _ []*item) error {
	tx := c.tx
	tx.Tx = t
	for _, ch := range tx.order {
		if err := tx.remove(ch, ch.removals); err != nil {
			return err
		}
	}
	for _, ch := range tx.order {
		if err := tx.put(ch); err != nil {
			return err
		}
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

package store

import (
	"database/sql/driver"
	"errors"
	"log/slog"
)

// A transaction that purges deletes about portion bytes at most, so that waiting entries are
// committed soon. Each row counts for rowWork bytes in addition to its size.
const (
	portion = 16 << 20
	rowWork = 1 << 10
)

// startPurge has the committer purge a queue, after everything that was put.
func (s *Store) startPurge(j *queueState) {
	j.deleted.Store(true)
	j.notify()
	s.do(func(c *committer) {
		j.purging, j.blocks = true, nil
		c.queues.bytes -= j.sums.bytes + j.sums.deadBytes
		c.queues.stored.Store(c.queues.bytes)
		j.clearWindow()
		c.purging = append(c.purging, j)
	})
}

// clearWindow releases the memory of the window.
func (j *queueState) clearWindow() {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.window.reset(j.next)
}

// purge deletes a portion of what is left of deleted queues. It reports whether there is more.
func (c *committer) purge() bool {
	if len(c.purging) == 0 || c.commits.Err() != nil {
		return false
	}
	j, done := c.purging[0], false
	err := c.inTransaction(func(tx *transaction) (err error) {
		done, err = tx.purge(j)
		return err
	})
	if err != nil {
		c.commits.Fail(err)
		return false
	}
	c.commits.ScheduleTidy()
	if done {
		c.purging = c.purging[1:]
		c.queues.remove(j)
		c.log.Debug("the queue of a bridge was deleted", slog.Int64("queue", j.queue))
	}
	return len(c.purging) > 0
}

// purge deletes a portion of what is left of a queue, and finally the queue.
func (tx *transaction) purge(j *queueState) (done bool, err error) {
	for _, part := range []struct {
		list    statement
		deletes []statement
	}{
		{sumBlocks, []statement{deleteBlocks, deleteRemoved}},
		{sumDead, []statement{deleteDead}},
	} {
		rows, err := tx.sum(part.list, j, 0, rowID(j.queue+1, 0))
		if err != nil {
			return false, err
		}
		if len(rows) == 0 {
			continue
		}
		for _, s := range part.deletes {
			if err := tx.exec(s, rows[0].id, rows[len(rows)-1].id); err != nil {
				return false, err
			}
		}
		return false, nil
	}
	return true, tx.exec(deleteQueue, j.queue)
}

// sumRows is the maximum number of rows that are summed at once.
const sumRows = 1024

// sum returns the numbers and sizes of the first rows of a queue, from an ID to a row number, up
// to a portion of bytes.
func (tx *transaction) sum(s statement, j *queueState, from uint64, to int64) (rows []row, err error) {
	work := int64(0)
	err = tx.query(s, 2, func(v []driver.Value) error {
		r := row{id: v[0].(int64), bytes: v[1].(int64)}
		rows = append(rows, r)
		if work += r.bytes + rowWork; work >= portion {
			return errStop
		}
		return nil
	}, rowID(j.queue, from), to, int64(sumRows))
	if errors.Is(err, errStop) {
		err = nil
	}
	return rows, err
}

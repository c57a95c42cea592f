package store

import (
	"fmt"
	"log/slog"
	"slices"
	"sync/atomic"
	"time"

	"signalbox/broker/storage"
)

// Bounds of one transaction, in entries, and the bytes that an entry counts
// besides its messages.
const (
	groupEntries  = 4096
	entryOverhead = 256
)

// entry is what one call submits: runs and a query state.
type entry struct {
	stored    *storedLog
	runs      []run
	state     []byte
	committed func(error) // nil if no caller waits
}

// Committed passes on the outcome.
func (e *entry) Committed(err error) {
	if e.committed != nil {
		e.committed(err)
	}
}

// hasContent reports whether there is something to store.
func (e *entry) hasContent() bool { return len(e.runs) > 0 || e.state != nil }

// committer is the state of the goroutine that writes messages. Between commits
// it runs maintenance tasks, step by step.
type committer struct {
	*Store
	sweepTimer *time.Timer  // until the next sweep
	sweepDue   atomic.Bool  // a sweep must be started
	tx         *transaction // under way; nil for none
	tooMuch    bool         // what exceeds the budgets is too much for it
	tasks      []task
	sweeping   bool   // a sweep is among the tasks
	body       []byte // reused buffer

	evictedTally storage.Tally
}

func (s *Store) startCommitter() {
	c := &committer{Store: s}
	s.committer = c
	c.sweepDue.Store(true)
	c.sweepTimer = time.AfterFunc(maxSweepInterval, c.scheduleSweep)
	s.commits.Start(storage.Callbacks[*entry]{
		Prepare: c.prepare, Write: c.write, After: c.after, Omit: c.omit, Work: c.work, End: c.end,
	})
}

// scheduleSweep makes the committer start a sweep soon.
func (c *committer) scheduleSweep() {
	c.sweepDue.Store(true)
	c.commits.Notify()
}

// work starts a sweep if it is due, and runs a step of a task.
func (c *committer) work() (more bool) {
	if c.sweepDue.Load() {
		c.sweepDue.Store(false)
		c.startSweep()
	}
	return c.runStep()
}

// end aborts the tasks.
func (c *committer) end() error {
	c.sweepTimer.Stop()
	for _, k := range c.tasks {
		k.end(errClosed)
	}
	return nil
}

// prepare reports whether there is anything to store.
func (c *committer) prepare(group []*entry) (needed bool, err error) {
	return slices.ContainsFunc(group, (*entry).hasContent), nil
}

// write stores a group, and evicts what then exceeds the budgets. If that is too
// much for one transaction, a sweep continues.
func (c *committer) write(t storage.Tx, group []*entry) error {
	tx := c.begin(t)
	if err := tx.write(group, c.limits); err != nil {
		return err
	}
	tx.workLimit += max(tx.bytes-c.logs.bytes, 0)
	if err := tx.evict(&c.logs, c.options, tx.logs()); err != nil {
		return err
	}
	c.tooMuch = tx.limitReached()
	return tx.saveTotals()
}

// omit logs entries that contradict what is stored.
func (c *committer) omit(group []*entry, err error) error {
	c.log.Error("messages of a stream contradict what is stored and were left out", slog.Int64("stream", group[0].stored.stream), slog.Any("error", err))
	return fmt.Errorf("store messages: %w", err)
}

// logEvicted logs, at a limited rate, that messages were evicted to keep within
// a budget.
func (c *committer) logEvicted(n int64) {
	if n := c.evictedTally.Add(n, c.now); n > 0 {
		c.log.Warn("the oldest messages of streams were evicted to keep within a budget",
			slog.Int64("messages", n), slog.Int64("max_bytes", c.options.MaxBytes), slog.Int64("max_stream_bytes", c.options.MaxStreamBytes))
	}
}

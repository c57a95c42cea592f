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

// hasContent reports whether there is something to store.
func (e *entry) hasContent() bool { return len(e.runs) > 0 || e.state != nil }

// committer is the state of the goroutine that writes messages. Between commits
// it runs maintenance tasks, step by step.
type committer struct {
	*Store
	sweepTimer *time.Timer // until the next sweep
	sweepDue   atomic.Bool // a sweep must be started
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
	s.commits.Start(storage.Callbacks[*entry]{Write: c.write, Report: c.report, Omit: c.omit, Work: c.work, End: c.end})
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

// write stores a group in one transaction, which also evicts what then exceeds
// the budgets. If that is too much for one transaction, a sweep continues.
func (c *committer) write(group []*entry) error {
	if !slices.ContainsFunc(group, (*entry).hasContent) {
		return nil
	}
	spent := false
	err := c.transact(func(tx *transaction) error {
		if err := tx.write(group, c.limits); err != nil {
			return err
		}
		tx.workLimit += max(tx.bytes-c.logs.bytes, 0)
		err := tx.evict(&c.logs, c.options, tx.logs())
		spent = tx.limitReached()
		return err
	})
	if err == nil && spent {
		c.startSweep()
	}
	return err
}

// omit logs entries that contradict what is stored.
func (c *committer) omit(group []*entry, err error) error {
	c.log.Error("messages of a stream contradict what is stored and were left out", slog.Int64("stream", group[0].stored.stream), slog.Any("error", err))
	return fmt.Errorf("store messages: %w", err)
}

// report calls the callbacks of entries.
func (c *committer) report(group []*entry, err error) {
	for _, e := range group {
		if e.committed != nil {
			e.committed(err)
		}
	}
}

// logEvicted logs, at a limited rate, that messages were evicted to keep within
// a budget.
func (c *committer) logEvicted(n int64) {
	if n := c.evictedTally.Add(n, c.now); n > 0 {
		c.log.Warn("the oldest messages of streams were evicted to keep within a budget",
			slog.Int64("messages", n), slog.Int64("max_bytes", c.options.MaxBytes), slog.Int64("max_stream_bytes", c.options.MaxStreamBytes))
	}
}

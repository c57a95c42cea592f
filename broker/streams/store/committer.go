package store

import (
	"fmt"
	"log/slog"
	"slices"
	"sync/atomic"
	"time"

	"signalbox/broker/storage"
)

// Bounds of one transaction, in entries, and what an entry weighs beside its messages,
// in bytes.
const (
	groupEntries = 4096
	entryWeight  = 256
)

// entry is what was submitted at a time: runs and a state.
type entry struct {
	journal *journal
	runs    []run
	state   []byte
	settle  func(error) // nil where no caller waits
}

// holds reports whether there is something to be stored.
func (e *entry) holds() bool { return len(e.runs) > 0 || e.state != nil }

// committer is what the goroutine that writes messages works with: beside commits, it
// does chores, portion by portion.
type committer struct {
	*Store
	sweeps *time.Timer // until the next sweep
	due    atomic.Bool // a sweep is to begin
	chores []chore
	busy   bool   // a sweep is among the chores
	body   []byte // to be used again

	evicted storage.Tally
}

func (s *Store) startCommitter() {
	c := &committer{Store: s}
	s.committer = c
	c.due.Store(true)
	c.sweeps = time.AfterFunc(maxSweep, c.mind)
	s.commits.Start(storage.Callbacks[*entry]{Write: c.write, Report: c.report, Omit: c.omit, Work: c.work, End: c.end})
}

// mind has a sweep begin soon.
func (c *committer) mind() {
	c.due.Store(true)
	c.commits.Notify()
}

// work takes a step of the chores, and begins a sweep when that is due.
func (c *committer) work() (more bool) {
	if c.due.Load() {
		c.due.Store(false)
		c.sweep()
	}
	return c.chore()
}

// end breaks off the chores.
func (c *committer) end() error {
	c.sweeps.Stop()
	for _, k := range c.chores {
		k.end(errClosed)
	}
	return nil
}

// write stores a group in one transaction and evicts what is beyond the budgets then.
// Where that is too much, it goes on with it later.
func (c *committer) write(group []*entry) error {
	if !slices.ContainsFunc(group, (*entry).holds) {
		return nil
	}
	spent := false
	err := c.transact(func(tx *transaction) error {
		if err := tx.write(group, c.limits); err != nil {
			return err
		}
		tx.allowance += max(tx.bytes-c.books.bytes, 0)
		err := tx.evict(&c.books, c.options, tx.journals())
		spent = tx.spent()
		return err
	})
	if err == nil && spent {
		c.sweep()
	}
	return err
}

// omit logs that entries contradict what is stored.
func (c *committer) omit(group []*entry, err error) error {
	c.log.Error("messages of a stream contradict what is stored and were left out", slog.Int64("stream", group[0].journal.stream), slog.Any("err", err))
	return fmt.Errorf("store messages: %w", err)
}

// report calls those who wait for entries.
func (c *committer) report(group []*entry, err error) {
	for _, e := range group {
		if e.settle != nil {
			e.settle(err)
		}
	}
}

// logEvicted logs now and then that messages were evicted to keep within a budget.
func (c *committer) logEvicted(n int64) {
	if n := c.evicted.Add(n, c.now); n > 0 {
		c.log.Warn("the oldest messages of streams went to keep within a budget",
			slog.Int64("messages", n), slog.Int64("max_bytes", c.options.MaxBytes), slog.Int64("max_stream_bytes", c.options.MaxStreamBytes))
	}
}

package store

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"time"

	"signalbox/broker/storage"
)

// Times between attempts to write again after a failure, without messages before
// the file is tidied up, and between the steps of that.
const (
	probeEvery = time.Second
	idleAfter  = time.Second
	tidyPause  = 10 * time.Millisecond
)

// probeBytes is how much must fit onto the disk before it counts as writable.
const probeBytes = 256 << 10

// committer is the one goroutine that writes messages. It takes what was handed
// over, commits it as one transaction and hands it on to be settled; in between
// it does chores, portion by portion.
type committer struct {
	*Store
	timer  *time.Timer // until the next probe, or until idle
	sweeps *time.Timer // until the next sweep
	chores []chore
	busy   bool      // a sweep is among the chores
	body   []byte    // to be used again
	since  time.Time // of the failure

	let  int64     // messages let go of and not told yet
	told time.Time // when that was told last
}

// always is a channel that is always ready.
var always = func() <-chan struct{} {
	c := make(chan struct{})
	close(c)
	return c
}()

func newCommitter(s *Store) *committer {
	return &committer{Store: s, timer: time.NewTimer(idleAfter), sweeps: time.NewTimer(0)}
}

// run works until the inbox is closed and empty.
func (c *committer) run() {
	defer close(c.settled)
	defer c.timer.Stop()
	defer c.sweeps.Stop()
	for !c.inbox.ended() {
		stored := c.next()
		c.wait(c.chore() || stored)
	}
	for _, k := range c.chores {
		k.end(errClosed)
	}
}

// wait waits until there is something to do. Where there is already, it only
// looks at the time.
func (c *committer) wait(more bool) {
	var ready <-chan struct{}
	if more {
		ready = always
	}
	select {
	case <-ready:
	case <-c.inbox.wake:
	case <-c.retime:
		c.sweep()
	case <-c.sweeps.C:
		c.sweep()
	case <-c.timer.C:
		c.tick()
	}
}

// next commits what waits and fits into one transaction. It tells whether there
// was anything.
func (c *committer) next() bool {
	group, weight := c.inbox.take(nil)
	if len(group) == 0 {
		return false
	}
	if task := group[0].task; task != nil {
		task(c)
	} else {
		c.process(group)
	}
	c.inbox.done(weight)
	return true
}

// process commits a group, unless there is nothing in it, and has it settled.
func (c *committer) process(group []*entry) {
	if !slices.ContainsFunc(group, (*entry).holds) {
		c.settled <- batch{group, nil}
		return
	}
	if cause := c.cause.Load(); cause != nil {
		c.settled <- batch{group, cause}
		return
	}
	err := c.commit(group)
	switch {
	case err == nil:
		c.settled <- batch{group, nil}
		c.timer.Reset(idleAfter)
	case storage.Fault(err) && len(group) > 1:
		for i := range group {
			c.process(group[i : i+1 : i+1])
		}
	case storage.Fault(err):
		c.log.Error("messages of a stream contradict what is stored and were left out", slog.Int64("stream", group[0].journal.stream), slog.Any("err", err))
		c.settled <- batch{group, fmt.Errorf("store messages: %w", err)}
	default:
		c.fail(err)
		c.settled <- batch{group, c.cause.Load()}
	}
}

// commit writes a group in one transaction and lets go of what is beyond the
// budgets then. Where that is too much, it goes on with it later.
func (c *committer) commit(group []*entry) error {
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

// fail begins the time in which nothing can be stored.
func (c *committer) fail(err error) {
	if c.cause.Swap(c.file.Failure(err, "the streams' messages cannot be stored; the log tells why")) == nil {
		c.since = c.now()
		c.log.Error("the streams' messages cannot be stored", slog.Any("err", err))
	}
	c.timer.Reset(probeEvery)
}

// tick does what the timer was set for.
func (c *committer) tick() {
	if c.cause.Load() != nil {
		c.recover()
		return
	}
	more, err := c.conn.Tidy(context.Background())
	if err != nil {
		c.log.Warn("the streams' database could not be tidied up", slog.Any("err", err))
	}
	if more {
		c.timer.Reset(tidyPause)
	}
}

// recover finds out whether something can be stored again.
func (c *committer) recover() {
	if err := c.probe(); err != nil {
		c.fail(err)
		return
	}
	c.cause.Store(nil)
	c.log.Info("the streams' messages can be stored again", slog.Duration("after", c.now().Sub(c.since)))
	c.timer.Reset(idleAfter)
}

// probe stores something of some size, and deletes it again.
func (c *committer) probe() error {
	err := c.transact(func(tx *transaction) error {
		if err := tx.exec(drain); err != nil {
			return err
		}
		return tx.exec(fill, int64(probeBytes))
	})
	if err != nil {
		return err
	}
	return c.transact(func(tx *transaction) error { return tx.exec(drain) })
}

// tellEvery is how often it is told at most that messages are let go of.
const tellEvery = time.Minute

// tell logs now and then that messages are let go of to keep within a budget.
func (c *committer) tell(n int64) {
	if c.let += n; c.let == 0 {
		return
	}
	now := c.now()
	if c.told.IsZero() || now.Sub(c.told) >= tellEvery {
		c.log.Warn("the oldest messages of streams went to keep within a budget",
			slog.Int64("messages", c.let), slog.Int64("max_bytes", c.options.MaxBytes), slog.Int64("max_stream_bytes", c.options.MaxStreamBytes))
		c.let, c.told = 0, now
	}
}

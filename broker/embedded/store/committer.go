package store

import (
	"context"
	"fmt"
	"log/slog"
	"time"

	"signalbox/broker/embedded/engine"
	"signalbox/broker/storage"
)

// Times between attempts to write again after a failure, without changes before
// the file is tidied up, and between the steps of that.
const (
	probeEvery = time.Second
	idleAfter  = time.Second
	tidyPause  = 10 * time.Millisecond
)

// probeBytes is how much must fit onto the disk before it counts as writable.
const probeBytes = 256 << 10

// committer is the one goroutine that writes. It takes what was submitted,
// commits it as one transaction and hands it on to be settled.
type committer struct {
	*Store
	plan       *plan
	writer     writer
	durability storage.Durability
	timer      *time.Timer       // until the next probe, or until idle
	owed       []*engine.Changes // not stored yet, in order; none unless failing
	since      time.Time         // of the failure
}

func newCommitter(s *Store) *committer {
	p := newPlan(nil)
	return &committer{
		Store: s, plan: p, writer: writer{disk: s.disk, plan: p}, durability: s.durability, timer: time.NewTimer(idleAfter),
	}
}

// run works until the inbox is closed and empty.
func (c *committer) run() {
	defer close(c.settled)
	defer c.timer.Stop()
	for !c.inbox.ended() {
		select {
		case <-c.inbox.wake:
			c.empty()
		case <-c.probe:
			c.recover()
		case <-c.timer.C:
			c.tick()
		}
	}
	c.end()
}

// empty commits what waits, group by group, and does errands in between.
func (c *committer) empty() {
	for {
		group, weight, e := c.inbox.take()
		switch {
		case e != nil:
			e.run(c)
		case len(group) > 0:
			c.process(group)
			c.inbox.done(len(group), weight)
		default:
			return
		}
	}
}

func (c *committer) process(group []*engine.Changes) {
	if c.cause.Load() != nil {
		c.keep(group)
		return
	}
	if c.try(group) {
		c.timer.Reset(idleAfter)
	}
}

// try commits a group and tells whether changes can be stored at all. If not, it
// keeps what is owed.
func (c *committer) try(group []*engine.Changes) bool {
	err := c.commit(group, position{})
	if err == nil {
		c.settled <- batch{group, nil}
		return true
	}
	if storage.Fault(err) {
		return c.separate(group)
	}
	c.fail(err)
	c.keep(group)
	return false
}

// commit writes a group in one transaction, and the position that is reached with
// it in a shared log, unless its index is 0.
func (c *committer) commit(group []*engine.Changes, at position) error {
	defer c.plan.reset()
	if err := c.learn(context.Background()); err != nil {
		return err
	}
	c.plan.draw(group)
	err := c.disk.Transact(context.Background(), func() error { return c.writer.write(group, at) })
	if err == nil {
		c.books.note(c.plan)
	}
	return err
}

// learn reads what is stored into the ledger, where it is not known.
func (c *committer) learn(ctx context.Context) error {
	if c.books != nil {
		return nil
	}
	_, err := c.load(ctx)
	return err
}

// load reads everything.
func (c *committer) load(ctx context.Context) (*loader, error) {
	l, err := c.disk.load(ctx)
	if err != nil {
		return nil, fmt.Errorf("read the broker's messages: %w", err)
	}
	if l.dropped != (dropped{}) {
		c.log.Warn("dropped from the broker's database what nothing refers to, or what refers to nothing",
			slog.Int("messages", l.dropped.messages), slog.Int("queued", l.dropped.queued), slog.Int("other", l.dropped.other))
	}
	last := c.shared.Load().last
	l.snapshot.LastMessageID = max(l.snapshot.LastMessageID, last.message)
	l.snapshot.LastSessionID = max(l.snapshot.LastSessionID, last.session)
	c.adopt(l.books)
	return l, nil
}

// adopt has a ledger count from now on, or with nil has it read anew when it is
// needed.
func (c *committer) adopt(books *ledger) {
	c.books, c.plan.books = books, books
}

// separate commits a group change by change, because one of them contradicts
// what is stored, which is a fault of this program. That one is refused even if
// it is owed: it would fail for ever.
func (c *committer) separate(group []*engine.Changes) bool {
	for i := range group {
		err := c.commit(group[i:i+1], position{})
		if err != nil && !storage.Fault(err) {
			c.fail(err)
			c.keep(group[i:])
			return false
		}
		if err != nil {
			c.log.Error("changes contradict what is stored and were left out", slog.Any("err", err))
		}
		c.settled <- batch{group[i : i+1], err}
	}
	return true
}

// keep puts aside, of changes that cannot be stored, what is owed, and refuses
// the rest.
func (c *committer) keep(group []*engine.Changes) {
	var refused []*engine.Changes
	for _, changes := range group {
		if changes.Owed {
			c.owed = append(c.owed, changes)
		} else {
			refused = append(refused, changes)
		}
	}
	if len(refused) > 0 {
		c.settled <- batch{refused, c.cause.Load()}
	}
}

// fail begins the time in which nothing can be stored.
func (c *committer) fail(err error) {
	if c.cause.Swap(c.disk.File().Failure(err, "the broker's messages cannot be stored; the log tells why")) == nil {
		c.since = c.now()
		c.log.Error("the broker's messages cannot be stored", slog.Any("err", err))
	}
	c.timer.Reset(probeEvery)
}

// tick does what the timer was set for.
func (c *committer) tick() {
	if c.cause.Load() != nil {
		c.recover()
		return
	}
	more, err := c.disk.Tidy(context.Background())
	if err != nil {
		c.log.Warn("the broker's database could not be tidied up", slog.Any("err", err))
	}
	if more {
		c.timer.Reset(tidyPause)
	}
}

// recover finds out whether something can be stored again. If so it stores what
// is owed, and only then takes new changes.
func (c *committer) recover() {
	if c.cause.Load() == nil {
		return
	}
	if err := c.disk.probe(context.Background()); err != nil {
		c.fail(err)
		return
	}
	owed := c.owed
	c.owed = nil
	for len(owed) > 0 {
		n := min(len(owed), groupChanges)
		if !c.try(owed[:n:n]) {
			c.owed = append(c.owed, owed[n:]...)
			return
		}
		owed = owed[n:]
	}
	c.cause.Store(nil)
	c.log.Info("the broker's messages can be stored again", slog.Duration("after", c.now().Sub(c.since)))
	c.timer.Reset(idleAfter)
}

// end stores what is owed, if that is possible at last.
func (c *committer) end() {
	c.recover()
	if len(c.owed) > 0 {
		c.closeErr = fmt.Errorf("%d changes to sessions could not be stored: %w", len(c.owed), c.cause.Load())
		c.settled <- batch{c.owed, c.cause.Load()}
	}
}

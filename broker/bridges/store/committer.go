package store

import (
	"context"
	"fmt"
	"log/slog"
	"time"

	"signalbox/broker/storage"
)

// Times between attempts to write again after a failure, after a commit before
// the file is tidied up, and between the steps of that.
const (
	probeEvery = time.Second
	tidyAfter  = time.Second
	tidyPause  = 10 * time.Millisecond
)

// probeBytes is how much must fit onto the disk before it counts as writable.
const probeBytes = 256 << 10

// committer is the one goroutine that writes to queues. It takes what was handed
// over, commits it as one transaction and hands it on to be settled; in between
// it deletes what is left of queues that are gone, portion by portion.
type committer struct {
	*Store
	timer   *time.Timer // until the next probe, or until the file is tidied up
	armed   bool        // the timer is set
	quiet   bool        // nothing was committed since the timer was set
	level   storage.Durability
	purging []*journal
	owed    []*journal // what they want removed could not be
	encoder encoder    // to be used again
	since   time.Time  // of the failure

	let  int64     // messages dropped and not told yet
	told time.Time // when that was told last
}

// always is a channel that is always ready.
var always = func() <-chan struct{} {
	c := make(chan struct{})
	close(c)
	return c
}()

func newCommitter(s *Store) *committer {
	return &committer{Store: s, timer: time.NewTimer(tidyAfter), armed: true, quiet: true, level: s.options.Durability, purging: s.left,
		encoder: encoder{offset: s.timeline.Offset()}}
}

// run works until the inbox is closed and empty.
func (c *committer) run() {
	defer close(c.settled)
	defer c.timer.Stop()
	for !c.inbox.ended() {
		worked := c.next()
		c.wait(c.purge() || worked)
	}
	if err := c.commit(nil, c.owed); err != nil {
		c.log.Warn("some messages of bridges will be delivered again", slog.Any("err", err))
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
	case <-c.timer.C:
		c.armed = false
		c.tick()
	}
}

// set has the timer fire after a time.
func (c *committer) set(d time.Duration) {
	c.timer.Reset(d)
	c.armed, c.quiet = true, true
}

// next commits what waits and fits into one transaction. It tells whether there
// was anything.
func (c *committer) next() bool {
	group, touched, weight := c.inbox.take()
	if len(group)+len(touched) == 0 {
		return false
	}
	if len(group) > 0 && group[0].task != nil {
		c.process(nil, touched)
		group[0].task(c)
	} else {
		c.process(group, touched)
	}
	c.inbox.done(weight)
	return true
}

// process commits what was handed over and removed, and has it settled.
func (c *committer) process(group []item, touched []*journal) {
	if len(group)+len(touched) == 0 {
		return
	}
	if cause := c.cause.Load(); cause != nil {
		c.refuse(group, touched, cause)
		return
	}
	err := c.commit(group, touched)
	switch {
	case err == nil:
		c.settled <- batch{group, nil}
	case storage.Fault(err):
		c.isolate(group, touched)
	default:
		c.fail(err)
		c.refuse(group, touched, c.cause.Load())
	}
}

// refuse settles what cannot be stored. What was to be removed is kept for later.
func (c *committer) refuse(group []item, touched []*journal, err error) {
	for _, i := range group {
		if i.settle == nil {
			i.journal.dropped.Add(1)
		}
	}
	c.owed = append(c.owed, touched...)
	c.settled <- batch{group, err}
}

// isolate commits queue by queue what contradicts the file together, so that only
// those suffer that it is about.
func (c *committer) isolate(group []item, touched []*journal) {
	groups := map[*journal][]item{}
	for _, j := range touched {
		groups[j] = nil
	}
	for _, i := range group {
		groups[i.journal] = append(groups[i.journal], i)
	}
	for j, items := range groups {
		err := c.commit(items, []*journal{j})
		switch {
		case err == nil:
			c.settled <- batch{items, nil}
		case storage.Fault(err):
			c.log.Error("messages of a bridge contradict what is stored and were left out", slog.Int64("queue", j.queue), slog.Any("err", err))
			j.dropped.Add(int64(len(items)))
			c.settled <- batch{items, fmt.Errorf("store messages: %w", err)}
		default:
			c.fail(err)
			c.refuse(items, []*journal{j}, c.cause.Load())
		}
	}
}

// commit removes from queues what they want to have removed, and stores a group,
// in one transaction.
func (c *committer) commit(group []item, touched []*journal) error {
	if len(group)+len(touched) == 0 {
		return nil
	}
	if err := c.demand(len(group) > 0); err != nil {
		return err
	}
	err := c.transact(func(tx *transaction) error {
		for _, j := range touched {
			if err := tx.reap(j); err != nil {
				return err
			}
		}
		return tx.store(group)
	})
	if err == nil {
		c.committed()
	}
	return err
}

// demand has the next transaction be as durable as it must. That something was
// removed need not be brought to the disk by itself: it survives the process, and
// is brought there with what is stored next.
func (c *committer) demand(stores bool) error {
	level := c.options.Durability
	if !stores {
		level = storage.Process
	}
	if level == c.level {
		return nil
	}
	if err := c.conn.SetDurability(level); err != nil {
		return fmt.Errorf("set how durable transactions are: %w", err)
	}
	c.level = level
	return nil
}

// committed has the file tidied up some time after.
func (c *committer) committed() {
	c.quiet = false
	if !c.armed {
		c.timer.Reset(tidyAfter)
		c.armed = true
	}
}

// reap removes what a queue wants to have removed.
func (tx *transaction) reap(j *journal) error {
	ids := j.takeRemoved()
	ch := tx.change(j)
	ch.reaped = true
	if j.buried {
		return nil
	}
	return tx.remove(ch, ids)
}

// store stores what was handed over, queue by queue. What comes to a queue that
// is gone goes with it.
func (tx *transaction) store(group []item) error {
	for _, i := range group {
		if !i.journal.buried {
			ch := tx.change(i.journal)
			ch.items = append(ch.items, i)
		}
	}
	for _, ch := range tx.order {
		if err := tx.put(ch); err != nil {
			return err
		}
	}
	return nil
}

// fail begins the time in which nothing can be stored.
func (c *committer) fail(err error) {
	if c.cause.Swap(c.file.Failure(err, "the bridges' messages cannot be stored; the log tells why")) == nil {
		c.since = c.now()
		c.log.Error("the bridges' messages cannot be stored", slog.Any("err", err))
	}
	c.set(probeEvery)
}

// tick does what the timer was set for.
func (c *committer) tick() {
	if c.cause.Load() != nil {
		c.recover()
		return
	}
	tidy := c.conn.GiveBack
	idle := c.quiet
	if idle {
		tidy = c.conn.Tidy
	}
	more, err := tidy(context.Background())
	if err != nil {
		c.log.Warn("the bridges' database could not be tidied up", slog.Any("err", err))
	}
	switch {
	case more:
		c.set(tidyPause)
		c.quiet = idle
	case !idle:
		c.set(tidyAfter)
	}
}

// recover finds out whether something can be stored again. What was removed goes
// first, as that makes room.
func (c *committer) recover() {
	err := c.commit(nil, c.owed)
	if err == nil {
		c.owed = nil
		err = c.probe()
	}
	if err != nil {
		c.fail(err)
		return
	}
	c.cause.Store(nil)
	c.log.Info("the bridges' messages can be stored again", slog.Duration("after", c.now().Sub(c.since)))
	c.set(tidyAfter)
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

// tellEvery is how often it is told at most that messages are dropped.
const tellEvery = time.Minute

// tell logs now and then that messages are dropped.
func (c *committer) tell(tx *transaction) {
	for _, ch := range tx.order {
		c.let += ch.dropped
	}
	if c.let == 0 {
		return
	}
	now := c.now()
	if c.told.IsZero() || now.Sub(c.told) >= tellEvery {
		c.log.Warn("messages of bridges went because queues are full", slog.Int64("messages", c.let), slog.Int64("max_bytes", c.options.MaxBytes))
		c.let, c.told = 0, now
	}
}

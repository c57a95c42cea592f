package storage

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"
)

// ProbeInterval is the time between attempts to write again after a failure,
// TidyDelay the time between a commit and the maintenance of the file, and
// tidyPause the time between two steps of that.
const (
	ProbeInterval = time.Second
	TidyDelay     = time.Second
	tidyPause     = 10 * time.Millisecond
)

// maxOutcomes is how many groups may wait until their outcome is reported.
// Beyond that, commits wait.
const maxOutcomes = 4

// Entry is what a Committer commits.
type Entry interface {
	// Committed receives the outcome, once, on the goroutine that reports
	// outcomes. It must not block.
	Committed(err error)
}

// Committer is the group commit of the stores of messages, streams and bridges. It
// commits what is submitted to it, in order: everything that waits when a
// transaction ends is part of the next one. One goroutine writes while another
// reports the outcomes. All methods are safe for concurrent use, except
// those that are documented as only for the committer's goroutine, which calls
// the callbacks.
//
// While nothing can be stored, it refuses submissions and probes the file once
// per second.
type Committer[E Entry] struct {
	config  Config
	calls   Callbacks[E]
	inbox   *inbox[E]
	retry   chan struct{} // requests a probe; buffered by one
	reports chan outcome[E]
	cause   atomic.Pointer[Failure]

	// Fields of the committer's goroutine.
	timer *time.Timer // until the next probe or maintenance of the file
	armed bool        // the timer is set
	idle  bool        // nothing was committed since the timer was set
	since time.Time   // when the failure began

	goroutines sync.WaitGroup
	closeOnce  sync.Once
	closed     chan struct{} // closed after everything was released
	closeErr   error         // valid after closed is closed
}

// Limits bound the entries of one transaction, the entries that are submitted
// and neither committed nor refused, and their weight in bytes. Entries may be
// 0 for no bound, Pending for MaxPending.
type Limits struct{ GroupEntries, Entries, Pending int }

// Config configures a Committer. Contents is what is stored, in the words of an
// operator ("the broker's messages"). ProbeInsert and ProbeDelete are the
// statements of Conn.Probe. Closed is the error of submissions after Close.
type Config struct {
	Conn                     *Conn
	Log                      *slog.Logger
	Now                      func() time.Time
	Contents                 string
	Limits                   Limits
	ProbeInsert, ProbeDelete int
	TidyBusy                 bool // free pages are released each second under load as well, not only after it
	Closed                   error
}

// Callbacks are the parts of a committer that depend on its user. The
// committer's goroutine calls them. All but Write and Omit may be nil.
type Callbacks[E Entry] struct {
	// Prepare is called before the transaction of a group. It reports whether
	// one is needed.
	Prepare func(group []E) (needed bool, err error)
	// Write writes a group within its transaction.
	Write func(tx Tx, group []E) error
	// After is called after each transaction of Write and Transact. If that was
	// committed, the state in memory follows the file; otherwise it stays.
	After func(committed bool)
	// Omit logs that entries contradict what is stored, and returns the error
	// that is reported for them.
	Omit func(group []E, err error) error
	// Split divides a group, some of whose entries contradict what is stored,
	// into parts that are committed separately. Without it each entry is a
	// part.
	Split func(group []E) [][]E
	// Refuse keeps those of the entries that must be stored later, and returns
	// the others, which are refused.
	Refuse func(group []E) []E
	// Resume stores what Refuse has kept. It returns an error while nothing can
	// be stored. Without it, Probe is called.
	Resume func() error
	// Work performs a step of background work, and reports whether there is
	// more.
	Work func() (more bool)
	// End is called after everything else. Its error is that of Close.
	End func() error
}

// outcome is the result of entries that were committed, or failed, together.
type outcome[E Entry] struct {
	group []E
	err   error
}

// always is always ready to receive from.
var always = func() <-chan struct{} {
	c := make(chan struct{})
	close(c)
	return c
}()

// NewCommitter returns a committer that accepts submissions and does nothing
// before Start.
func NewCommitter[E Entry](o Config) *Committer[E] {
	return &Committer[E]{
		config: o, inbox: newInbox[E](o.Limits),
		retry: make(chan struct{}, 1), reports: make(chan outcome[E], maxOutcomes), closed: make(chan struct{}),
	}
}

// Start starts the goroutines, which run until Close.
func (c *Committer[E]) Start(calls Callbacks[E]) {
	c.calls = calls
	c.timer = time.NewTimer(TidyDelay)
	c.armed, c.idle = true, true
	c.goroutines.Go(c.run)
	c.goroutines.Go(c.report)
}

// Put submits an entry or a task. It reports false after Close.
func (c *Committer[E]) Put(s Submission[E]) bool { return c.inbox.put(s, false) }

// PutReserved submits an entry or a task for which Reserve was called. It
// reports false after Close.
func (c *Committer[E]) PutReserved(s Submission[E]) bool { return c.inbox.put(s, true) }

// PutFirst submits an entry that precedes all others that wait, and is not
// bounded. It is part of the next transaction even after Close, if there still
// is one.
func (c *Committer[E]) PutFirst(e E) { c.inbox.putFirst(e) }

// Full reports whether the limits are reached.
func (c *Committer[E]) Full() bool { return c.inbox.full.Load() }

// WaitForCapacity waits while the limits are reached, until Close.
func (c *Committer[E]) WaitForCapacity() {
	if c.Full() {
		c.inbox.reserve(context.Background(), 0) //nolint:errcheck // only the context's
	}
}

// Reserve waits for capacity and reserves it for PutReserved or Release.
func (c *Committer[E]) Reserve(ctx context.Context, weight int) error {
	closed, err := c.inbox.reserve(ctx, weight)
	if closed {
		return c.config.Closed
	}
	return err
}

// Release releases capacity that was reserved.
func (c *Committer[E]) Release(weight int) { c.inbox.done(batch[E]{weight: weight}) }

// Notify makes the committer call Work soon.
func (c *Committer[E]) Notify() { c.inbox.notify() }

// Retry makes the committer probe at once, instead of within a second, if
// nothing can be stored.
func (c *Committer[E]) Retry() {
	if c.cause.Load() == nil {
		return
	}
	select {
	case c.retry <- struct{}{}:
	default: // one is pending
	}
}

// Err returns why nothing can be stored at present, as a sentence for an
// operator, or nil.
func (c *Committer[E]) Err() error {
	if f := c.cause.Load(); f != nil {
		return f
	}
	return nil
}

// Close commits what was submitted, then calls release and returns its error
// with that of End. The context bounds only the wait; if it ends, the committer
// closes in the background. Later calls wait for the first one.
func (c *Committer[E]) Close(ctx context.Context, release func() error) error {
	c.closeOnce.Do(func() {
		c.inbox.close()
		go func() {
			c.goroutines.Wait()
			c.closeErr = errors.Join(c.closeErr, release())
			close(c.closed)
		}()
	})
	select {
	case <-c.closed:
		return c.closeErr
	case <-ctx.Done():
		return fmt.Errorf("close the store of %s: %w", c.config.Contents, context.Cause(ctx))
	}
}

// report reports outcomes while the committer continues.
func (c *Committer[E]) report() {
	for o := range c.reports {
		for _, e := range o.group {
			e.Committed(o.err)
		}
	}
}

// run commits until the inbox is closed and empty.
func (c *Committer[E]) run() {
	defer close(c.reports)
	defer c.timer.Stop()
	for {
		t := c.inbox.take()
		if t.ended {
			break
		}
		worked := c.process(t)
		more := c.calls.Work != nil && c.calls.Work()
		c.wait(more || worked)
	}
	if c.calls.End != nil {
		c.closeErr = c.calls.End()
	}
}

// wait waits until there is something to do. If more is true it does not block,
// and only checks for events.
func (c *Committer[E]) wait(more bool) {
	var ready <-chan struct{}
	if more {
		ready = always
	}
	select {
	case <-ready:
	case <-c.inbox.wake:
	case <-c.retry:
		c.Recover()
	case <-c.timer.C:
		c.armed = false
		c.tick()
	}
}

// process commits a batch or refuses it, and reports whether there was any.
func (c *Committer[E]) process(t batch[E]) bool {
	switch {
	case t.task != nil:
		t.task()
	case len(t.group) == 0:
		return false
	case c.cause.Load() != nil:
		c.refuse(t.group)
	default:
		if rest, err := c.Commit(t.group); err != nil {
			c.Fail(err)
			c.refuse(rest)
		}
	}
	c.inbox.done(t)
	return true
}

// ScheduleTidy schedules the maintenance of the file. A callback calls it, on
// the committer's goroutine, after a commit that Commit did not make.
func (c *Committer[E]) ScheduleTidy() {
	if c.config.TidyBusy && c.armed {
		c.idle = false
		return
	}
	c.resetTimer(TidyDelay)
	c.idle = !c.config.TidyBusy
}

// resetTimer sets the timer.
func (c *Committer[E]) resetTimer(d time.Duration) {
	c.timer.Reset(d)
	c.armed, c.idle = true, true
}

// tick handles the timer: a probe or a step of maintenance.
func (c *Committer[E]) tick() {
	if c.cause.Load() != nil {
		c.Recover()
		return
	}
	tidy, idle := c.config.Conn.tidy, c.idle
	if !idle {
		tidy = c.config.Conn.ReleasePages
	}
	more, err := tidy(context.Background())
	if err != nil {
		c.config.Log.Warn("maintenance of "+c.config.Conn.file.name+" failed", slog.Any("error", err))
	}
	switch {
	case more:
		c.resetTimer(tidyPause)
		c.idle = idle
	case !idle:
		c.resetTimer(TidyDelay)
	}
}

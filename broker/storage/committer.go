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

// ProbeInterval is the time between attempts to write again after a failure, TidyDelay
// the time between a commit and the tidying of the file, tidyPause that between its steps.
const (
	ProbeInterval = time.Second
	TidyDelay     = time.Second
	tidyPause     = 10 * time.Millisecond
)

// outcomes is how many groups may wait until their outcome is reported; with more,
// commits wait.
const outcomes = 4

// Committer commits what is submitted to it, in order: whatever waits when a
// transaction ends is the next one. One goroutine writes, and another one reports the
// outcome meanwhile. All methods that are not said to be the committer's own are safe
// for concurrent use.
//
// While nothing can be stored it refuses what is submitted, and tries each second
// whether that has passed.
type Committer[E any] struct {
	config  Config
	calls   Callbacks[E]
	inbox   *inbox[E]
	retry   chan struct{} // asks to probe at once, buffered by one
	reports chan outcome[E]
	cause   atomic.Pointer[Failure]

	// The committer's own.
	timer *time.Timer // until the next probe, or until the file is tidied up
	armed bool        // the timer is set
	quiet bool        // nothing was committed since the timer was set
	since time.Time   // of the failure

	tasks     sync.WaitGroup
	closeOnce sync.Once
	closed    chan struct{} // closed once all is done
	closeErr  error         // valid once closed is closed
}

// Limits bound the entries of one transaction, the entries that are submitted and
// neither committed nor refused, and their weight in bytes. Entries may be 0 for no
// bound, Pending for MaxPending.
type Limits struct{ GroupEntries, Entries, Pending int }

// Config is what a Committer works with. Contents is what is stored, as operators call
// it ("the broker's messages"). Fill and Drain are the statements of Conn.Probe.
// Closed is the error of what is submitted after Close.
type Config struct {
	Conn        *Conn
	Log         *slog.Logger
	Now         func() time.Time
	Contents    string
	Limits      Limits
	Fill, Drain int
	TidyBusy    bool // free pages are returned each second under load, too, not only after it
	Closed      error
}

// Callbacks are what the users of committers do differently. The committer's goroutine
// calls all but Report. Those that are nil do nothing special.
type Callbacks[E any] struct {
	// Write commits a group in one transaction.
	Write func(group []E) error
	// Report takes the outcome of entries, on the goroutine that reports.
	Report func(group []E, err error)
	// Omit logs that entries contradict what is stored, and returns the error that is
	// reported of them.
	Omit func(group []E, err error) error
	// Split divides a group, of which some entries contradict what is stored, into
	// what is to be committed apart; without it, that is each entry.
	Split func(group []E) [][]E
	// Refuse keeps of entries that cannot be stored what must be stored later, and
	// returns those to be refused.
	Refuse func(group []E) []E
	// Resume returns an error while nothing can be stored. Then it stores what Refuse
	// has kept. Without it, Probe is called.
	Resume func() error
	// Work does a portion of what there is to do in the background, and reports
	// whether there is more.
	Work func() (more bool)
	// End is called after everything else. Its error is that of Close.
	End func() error
}

// outcome is of entries that were committed, or failed, together.
type outcome[E any] struct {
	group []E
	err   error
}

// always is a channel that is always ready.
var always = func() <-chan struct{} {
	c := make(chan struct{})
	close(c)
	return c
}()

// NewCommitter returns a committer that takes submissions and does nothing before
// Start.
func NewCommitter[E any](o Config) *Committer[E] {
	return &Committer[E]{
		config: o, inbox: newInbox[E](o.Limits),
		retry: make(chan struct{}, 1), reports: make(chan outcome[E], outcomes), closed: make(chan struct{}),
	}
}

// Start has the committer work until Close.
func (c *Committer[E]) Start(calls Callbacks[E]) {
	c.calls = calls
	c.timer = time.NewTimer(TidyDelay)
	c.armed, c.quiet = true, true
	c.tasks.Go(c.run)
	c.tasks.Go(c.report)
}

// Put submits an entry or a task. It reports false after Close.
func (c *Committer[E]) Put(s Submission[E]) bool { return c.inbox.put(s, false) }

// PutReserved submits what Reserve has waited for. It reports false after Close.
func (c *Committer[E]) PutReserved(s Submission[E]) bool { return c.inbox.put(s, true) }

// PutFirst submits an entry that comes before all others that wait, and counts for no
// bound. It is part of the next transaction even after Close, if there still is one.
func (c *Committer[E]) PutFirst(e E) { c.inbox.putFirst(e) }

// Full reports whether there is no room for more.
func (c *Committer[E]) Full() bool { return c.inbox.full.Load() }

// WaitForRoom waits while there is no room for more, until Close.
func (c *Committer[E]) WaitForRoom() {
	if c.Full() {
		c.inbox.reserve(context.Background(), 0) //nolint:errcheck // only the context's
	}
}

// Reserve waits for room and takes it for PutReserved or Release.
func (c *Committer[E]) Reserve(ctx context.Context, weight int) error {
	closed, err := c.inbox.reserve(ctx, weight)
	if closed {
		return c.config.Closed
	}
	return err
}

// Release releases room that was reserved.
func (c *Committer[E]) Release(weight int) { c.inbox.done(batch[E]{weight: weight}) }

// Notify has Work called soon.
func (c *Committer[E]) Notify() { c.inbox.notify() }

// Retry has the committer probe at once, instead of within a second, if nothing can be
// stored.
func (c *Committer[E]) Retry() {
	if c.cause.Load() == nil {
		return
	}
	select {
	case c.retry <- struct{}{}:
	default: // it is going to
	}
}

// Err returns why nothing can be stored at present, in a sentence for an operator, or
// nil.
func (c *Committer[E]) Err() error {
	if f := c.cause.Load(); f != nil {
		return f
	}
	return nil
}

// Close commits what was submitted, calls release after everything else and returns
// its error with that of End. The context bounds the waiting only; the closing goes on
// behind it. Later calls wait for the first one.
func (c *Committer[E]) Close(ctx context.Context, release func() error) error {
	c.closeOnce.Do(func() {
		c.inbox.close()
		go func() {
			c.tasks.Wait()
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

// report reports outcomes while more is committed.
func (c *Committer[E]) report() {
	for o := range c.reports {
		c.calls.Report(o.group, o.err)
	}
}

// run works until the inbox is closed and empty.
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

// wait waits until there is something to do. Where there is more to do already, it
// only looks at the time.
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

// process commits a batch or refuses it. It reports whether there was anything.
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

// Commit commits a group and has the outcome reported. Entries that contradict what is
// stored, which is a fault of the program, are left out: they would fail for ever.
// After another error it returns the entries that are neither stored nor left out. It
// is the committer's own.
func (c *Committer[E]) Commit(group []E) (rest []E, err error) {
	if err = c.calls.Write(group); err == nil {
		c.Finish(group, nil)
		c.Committed()
		return nil, nil
	}
	parts := [][]E{group}
	if Fault(err) {
		parts = c.split(group)
	}
	for i, part := range parts {
		if len(parts) > 1 {
			err = c.calls.Write(part)
		}
		if err != nil && !Fault(err) {
			for _, later := range parts[i:] {
				rest = append(rest, later...)
			}
			return rest, err
		}
		if err != nil {
			err = c.calls.Omit(part, err)
		}
		c.Finish(part, err)
	}
	c.Committed()
	return nil, nil
}

func (c *Committer[E]) split(group []E) (parts [][]E) {
	if c.calls.Split != nil {
		return c.calls.Split(group)
	}
	for i := range group {
		parts = append(parts, group[i:i+1:i+1])
	}
	return parts
}

// refuse keeps or refuses entries that cannot be stored.
func (c *Committer[E]) refuse(group []E) {
	if c.calls.Refuse != nil {
		group = c.calls.Refuse(group)
	}
	if len(group) > 0 {
		c.Finish(group, c.Err())
	}
}

// Finish has the outcome of entries reported, behind that of those before. It is the
// committer's own.
func (c *Committer[E]) Finish(group []E, err error) { c.reports <- outcome[E]{group, err} }

// Committed has the file tidied up some time after. It is called by the committer
// itself, after what it has committed otherwise than with Commit.
func (c *Committer[E]) Committed() {
	if c.config.TidyBusy && c.armed {
		c.quiet = false
		return
	}
	c.set(TidyDelay)
	c.quiet = !c.config.TidyBusy
}

// set has the timer fire after a time.
func (c *Committer[E]) set(d time.Duration) {
	c.timer.Reset(d)
	c.armed, c.quiet = true, true
}

// tick does what the timer was set for.
func (c *Committer[E]) tick() {
	if c.cause.Load() != nil {
		c.Recover()
		return
	}
	tidy, idle := c.config.Conn.Tidy, c.quiet
	if !idle {
		tidy = c.config.Conn.GiveBack
	}
	more, err := tidy(context.Background())
	if err != nil {
		c.config.Log.Warn(c.config.Conn.file.name+" could not be tidied up", slog.Any("err", err))
	}
	switch {
	case more:
		c.set(tidyPause)
		c.quiet = idle
	case !idle:
		c.set(TidyDelay)
	}
}

// Fail begins the time in which nothing can be stored. It is the committer's own.
func (c *Committer[E]) Fail(err error) {
	sentence := c.config.Contents + " cannot be stored"
	if c.cause.Swap(c.config.Conn.file.Failure(err, sentence+"; the log tells why")) == nil {
		c.since = c.config.Now()
		c.config.Log.Error(sentence, slog.Any("err", err))
	}
	c.set(ProbeInterval)
}

// Recover tries whether the time has passed in which nothing can be stored, if it is
// such a time. It is the committer's own.
func (c *Committer[E]) Recover() {
	if c.cause.Load() == nil {
		return
	}
	resume := c.Probe
	if c.calls.Resume != nil {
		resume = c.calls.Resume
	}
	if err := resume(); err != nil {
		c.Fail(err)
		return
	}
	c.cause.Store(nil)
	c.config.Log.Info(c.config.Contents+" can be stored again", slog.Duration("after", c.config.Now().Sub(c.since)))
	c.set(TidyDelay)
}

// Probe tries whether the file can be written to. It is the committer's own.
func (c *Committer[E]) Probe() error {
	return c.config.Conn.Probe(context.Background(), c.config.Fill, c.config.Drain)
}

package storage

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"
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
	wake    chan struct{} // buffered by one; has an element when there is something to do
	retry   chan struct{} // requests a probe; buffered by one
	reports chan outcome[E]
	cause   atomic.Pointer[Failure]
	gather  *time.Timer // until the next tick for what is deferred; reset with mu held

	// Fields of the committer's goroutine.
	timer *time.Timer // until the next probe or maintenance of the file
	armed bool        // the timer is set
	idle  bool        // nothing was committed since the timer was set
	since time.Time   // when the failure began

	goroutines sync.WaitGroup
	closeOnce  sync.Once
	released   chan struct{} // closed after everything was released
	closeErr   error         // valid after released is closed

	mu      sync.Mutex    // guards the fields below; held for a few instructions
	notFull chan struct{} // closed when full becomes false; nil while no caller waits
	first   []E           // precedes waiting
	waiting []Submission[E]
	head    int  // index in waiting; those before it were taken
	entries int  // submitted and not done
	weight  int  // of those entries, of tasks, and reserved
	due     bool // all that waits is to be committed, as it is not all deferred
	ripe    int  // if not, how many in waiting are to be committed, as they have waited
	aged    int  // how many in waiting the next tick makes ripe
	ticked  bool // first is to be committed
	closed  bool

	full atomic.Bool // the limits are reached; written with mu held
}

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
	TidyBusy                 bool          // free pages are released each second under load as well, not only after it
	Gather                   time.Duration // how long a submission that is Deferred waits at least
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
	o.Limits.Pending = cmp.Or(o.Limits.Pending, MaxPending)
	c := &Committer[E]{
		config: o, wake: make(chan struct{}, 1), retry: make(chan struct{}, 1),
		reports: make(chan outcome[E], maxOutcomes), released: make(chan struct{}),
		gather: time.NewTimer(o.Gather),
	}
	c.gather.Stop()
	return c
}

// Start starts the goroutines, which run until Close.
func (c *Committer[E]) Start(calls Callbacks[E]) {
	c.calls = calls
	c.timer = time.NewTimer(TidyDelay)
	c.armed, c.idle = true, true
	c.goroutines.Go(c.run)
	c.goroutines.Go(c.report)
}

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
		c.refuseSubmissions()
		go func() {
			c.goroutines.Wait()
			c.closeErr = errors.Join(c.closeErr, release())
			close(c.released)
		}()
	})
	select {
	case <-c.released:
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

// run commits until Close was called and nothing waits.
func (c *Committer[E]) run() {
	defer close(c.reports)
	defer c.timer.Stop()
	defer c.gather.Stop()
	for {
		t := c.take()
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
	case <-c.wake:
	case <-c.gather.C:
		c.ripen()
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
	c.done(t.entries, t.weight)
	return true
}

// Write writes a group in one transaction, and neither reports its outcome nor
// schedules the maintenance of the file. It is only for the committer's
// goroutine.
func (c *Committer[E]) Write(group []E) error {
	if c.calls.Prepare != nil {
		if needed, err := c.calls.Prepare(group); err != nil || !needed {
			return err
		}
	}
	return c.Transact(context.Background(), func(tx Tx) error { return c.calls.Write(tx, group) })
}

// Transact runs write as one transaction, as Conn.Transact does, and calls
// After. It is only for the committer's goroutine.
func (c *Committer[E]) Transact(ctx context.Context, write func(Tx) error) error {
	err := c.config.Conn.Transact(ctx, write)
	if c.calls.After != nil {
		c.calls.After(err == nil)
	}
	return err
}

// Commit commits a group and queues its outcome. Entries that contradict what
// is stored, which is a fault of the program, are omitted, as they would fail
// for ever. After another error it returns the entries that were neither stored
// nor omitted. It is only for the committer's goroutine.
func (c *Committer[E]) Commit(group []E) (rest []E, err error) {
	if err = c.Write(group); err == nil {
		c.Finish(group, nil)
		c.ScheduleTidy()
		return nil, nil
	}
	subgroups := [][]E{group}
	if Fault(err) {
		subgroups = c.split(group)
	}
	for i, part := range subgroups {
		if len(subgroups) > 1 {
			err = c.Write(part)
		}
		if err != nil && !Fault(err) {
			for _, later := range subgroups[i:] {
				rest = append(rest, later...)
			}
			return rest, err
		}
		if err != nil {
			err = c.calls.Omit(part, err)
		}
		c.Finish(part, err)
	}
	c.ScheduleTidy()
	return nil, nil
}

func (c *Committer[E]) split(group []E) (subgroups [][]E) {
	if c.calls.Split != nil {
		return c.calls.Split(group)
	}
	for i := range group {
		subgroups = append(subgroups, group[i:i+1:i+1])
	}
	return subgroups
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

// Finish queues the outcome of entries, after those that are queued. It is only
// for the committer's goroutine.
func (c *Committer[E]) Finish(group []E, err error) { c.reports <- outcome[E]{group, err} }

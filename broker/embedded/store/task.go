package store

import (
	"context"
	"fmt"
	"sync/atomic"

	"signalbox/broker/embedded/engine"
	"signalbox/broker/storage"
)

// task is a function that the committer runs between two groups of changes, after
// everything that was submitted before it.
type task struct {
	do    func(*committer) error
	begun atomic.Bool // by the committer; or cancelled by the caller, so that it is not run
	done  chan error
}

// send makes the committer run a function and waits for it. If the context ends
// before the function was begun, it is not run. Once begun, it is waited for.
func (s *Store) send(ctx context.Context, do func(*committer) error) error {
	return s.begin(do).wait(ctx)
}

// begin makes the committer run a function after everything submitted before.
func (s *Store) begin(do func(*committer) error) *task {
	e := &task{do: do, done: make(chan error, 1)}
	if !s.commits.Put(storage.Submission[*engine.Changes]{Task: func() { e.run(s.committer) }}) {
		e.begun.Store(true)
		e.done <- errClosed
	}
	return e
}

// wait waits until the function has run. If the context ends before it was begun, it is
// not run.
func (e *task) wait(ctx context.Context) error {
	select {
	case err := <-e.done:
		return err
	case <-ctx.Done():
		if e.begun.CompareAndSwap(false, true) {
			return fmt.Errorf("wait for the store of the broker's messages: %w", context.Cause(ctx))
		}
		return <-e.done
	}
}

// run runs the function unless its caller has given up.
func (e *task) run(c *committer) {
	if e.begun.CompareAndSwap(false, true) {
		e.done <- e.do(c)
	}
}

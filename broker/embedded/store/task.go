package store

import (
	"context"
	"fmt"
	"sync/atomic"

	"signalbox/broker/embedded/engine"
	"signalbox/broker/storage"
)

// task is something that the committer does between two groups of changes,
// after all that was submitted before it.
type task struct {
	do    func(*committer) error
	begun atomic.Bool // begun by the committer, or given up by who waits
	done  chan error
}

// send has the committer do something and waits for it. If the context ends
// before it was begun, it is not done; begun, it is waited for.
func (s *Store) send(ctx context.Context, do func(*committer) error) error {
	e := &task{do: do, done: make(chan error, 1)}
	if !s.commits.Put(storage.Submission[*engine.Changes]{Task: func() { e.run(s.committer) }}) {
		return errClosed
	}
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

// run does the errand unless nobody waits for it any longer.
func (e *task) run(c *committer) {
	if e.begun.CompareAndSwap(false, true) {
		e.done <- e.do(c)
	}
}

package store

import (
	"context"
	"fmt"
	"sync/atomic"

	"signalbox/broker/embedded/engine"
	"signalbox/broker/storage"
)

// errand is something that the committer does between two groups of changes,
// after all that was submitted before it.
type errand struct {
	do    func(*committer) error
	taken atomic.Bool // begun by the committer, or given up by who waits
	done  chan error
}

// send has the committer do something and waits for it. If the context ends
// before it was begun, it is not done; begun, it is waited for.
func (s *Store) send(ctx context.Context, do func(*committer) error) error {
	e := &errand{do: do, done: make(chan error, 1)}
	if !s.commits.Put(storage.Submission[*engine.Changes]{Task: func() { e.run(s.committer) }}) {
		return errClosed
	}
	select {
	case err := <-e.done:
		return err
	case <-ctx.Done():
		if e.taken.CompareAndSwap(false, true) {
			return fmt.Errorf("wait for the store of the broker's messages: %w", context.Cause(ctx))
		}
		return <-e.done
	}
}

// run does the errand unless nobody waits for it any longer.
func (e *errand) run(c *committer) {
	if e.taken.CompareAndSwap(false, true) {
		e.done <- e.do(c)
	}
}

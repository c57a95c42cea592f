package replica

import (
	"context"
	"fmt"

	"signalbox/broker/embedded/engine"
)

// mode is the way in which a Store handles changes. Its first methods are those of
// engine.Store.
type mode interface {
	Submit(c *engine.Changes) // Store.mu is held
	WaitForCapacity()
	Full() bool
	Err() error

	// storesLocally reports whether changes that the cluster has not committed are stored in
	// the node's own store.
	storesLocally() bool

	// start starts the goroutines of the mode, before the first changes are submitted. end
	// waits until they have reported the outcome of all pending changes, and stops them; no
	// more changes are submitted then.
	start()
	end()
}

// switchTo changes the mode. If the next mode must not write to the node's own store, it
// first waits until that store has committed everything; on an error the former mode
// continues.
func (s *Store) switchTo(ctx context.Context, next mode) error {
	s.transition.Lock()
	defer s.transition.Unlock()
	if s.closed {
		return errClosed
	}
	former := s.current()
	if former.storesLocally() && !next.storesLocally() {
		s.set(newGathering())
		if err := s.drain(ctx); err != nil {
			s.set(former)
			return err
		}
	}
	s.replace(former, next)
	return nil
}

// replace ends a mode and starts the next. Changes submitted meanwhile are gathered.
func (s *Store) replace(former, next mode) {
	if _, gathers := s.current().(*gathering); !gathers {
		s.set(newGathering())
	}
	former.end()
	next.start()
	s.set(next)
}

// set sets the mode, and submits to it the changes that were gathered, in order.
func (s *Store) set(next mode) {
	s.mu.Lock()
	defer s.mu.Unlock()
	former := *s.mode.Swap(&next)
	if g, gathered := former.(*gathering); gathered {
		g.handTo(next)
	}
}

// drain waits for the outcome of everything that was submitted to the node's own store. A
// store that cannot write fails at once, and may keep Owed changes for later.
func (s *Store) drain(ctx context.Context) error {
	last := make(outcome, 1)
	s.local.Submit(&engine.Changes{Done: last})
	var err error
	select {
	case err = <-last:
	case <-ctx.Done():
		err = context.Cause(ctx)
	}
	if err != nil {
		return fmt.Errorf("wait until the broker's messages are stored: %w", err)
	}
	return nil
}

// outcome is a CommitNotifier that receives one result.
type outcome chan error

func (v outcome) Committed(_ *engine.Changes, err error) { v <- err }

// alone submits everything to the node's own store.
type alone struct{ Local }

func (alone) storesLocally() bool { return true }
func (alone) start()              {}
func (alone) end()                {}

// gathering queues changes for the next mode.
type gathering struct{ *queue }

func newGathering() *gathering { return &gathering{newQueue()} }

func (g *gathering) Submit(c *engine.Changes) { g.put(c) }
func (g *gathering) Err() error               { return nil }
func (g *gathering) storesLocally() bool      { return false }
func (g *gathering) start()                   {}
func (g *gathering) end()                     {}

// handTo submits the gathered changes to the next mode. Store.mu is held for writing.
func (g *gathering) handTo(next mode) {
	for b := newBatch(); g.take(b, groupChanges, groupWeight); b.reset() {
		for _, c := range b.group {
			next.Submit(c)
		}
	}
	g.close()
}

// closedMode refuses changes that are submitted after the store was closed.
type closedMode struct{}

func (closedMode) Submit(c *engine.Changes) { go c.Committed(errClosed) }
func (closedMode) WaitForCapacity()         {}
func (closedMode) Full() bool               { return false }
func (closedMode) Err() error               { return errClosed }
func (closedMode) storesLocally() bool      { return false }
func (closedMode) start()                   {}
func (closedMode) end()                     {}

package replica

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"signalbox/broker/embedded/engine"
)

// stallTimeout is how long the replication of retained messages may take before callers
// no longer wait for it: a full queue refuses retained messages then.
const stallTimeout = time.Second

// The errors of retained messages that are not committed.
var (
	errUnshared = errors.New("retained messages are no longer shared with the cluster")
	errStalled  = errors.New("the cluster does not commit retained messages, and too many wait for it")
)

// sharing replicates retained messages and stores everything else in the node's own
// store. One batch is in flight at a time, which keeps the order under any leader; the next
// one gathers meanwhile.
type sharing struct {
	Local
	retaining Retaining
	encode    func(dst []byte, group []*engine.Changes) []byte

	ctx     context.Context
	cancel  context.CancelCauseFunc
	waiting *queue      // to be replicated
	refused *discarding // because the queue was full and stalled
	tasks   sync.WaitGroup
}

func newSharing(local Local, r Retaining, encode func([]byte, []*engine.Changes) []byte) *sharing {
	s := &sharing{Local: local, retaining: r, encode: encode, waiting: newQueue(), refused: newDiscarding(errStalled)}
	s.ctx, s.cancel = context.WithCancelCause(context.Background())
	return s
}

func (s *sharing) Submit(c *engine.Changes) {
	switch {
	case !shared(c):
		s.Local.Submit(c)
	case !s.waiting.put(c):
		s.refused.Submit(c)
	}
}

// shared reports whether changes are replicated: those that only set or clear retained
// messages, and can be refused. Owed ones, such as the expiry of retained messages, are
// made by every node itself.
func shared(c *engine.Changes) bool {
	return len(c.Retained) > 0 && !c.Owed &&
		len(c.PutSessions) == 0 && len(c.Subscribed) == 0 && len(c.Unsubscribed) == 0 && len(c.Enqueued) == 0 &&
		len(c.Released) == 0 && len(c.Received) == 0 && len(c.Dequeued) == 0 && len(c.Forgotten) == 0 && len(c.EndedSessions) == 0
}

// WaitForCapacity waits for the node's own store, and for the cluster unless it is
// stalled.
func (s *sharing) WaitForCapacity() {
	s.Local.WaitForCapacity()
	s.waiting.WaitForCapacity()
}

// Full reports whether WaitForCapacity would wait.
func (s *sharing) Full() bool { return s.Local.Full() || s.waiting.Full() }

func (s *sharing) storesLocally() bool { return true }

func (s *sharing) start() {
	s.refused.start()
	s.tasks.Go(s.run)
}

func (s *sharing) end() {
	s.cancel(errUnshared)
	s.waiting.close()
	s.tasks.Wait()
	s.refused.end()
}

func (s *sharing) run() {
	for b := newBatch(); s.waiting.fill(b, groupChanges, groupWeight); b.reset() {
		b.report(s.retain(b))
		s.waiting.done(b)
	}
}

// retain replicates a batch. The queue stalls when that takes long or fails, until a batch
// succeeds again.
func (s *sharing) retain(b *batch) error {
	if s.ctx.Err() != nil {
		return context.Cause(s.ctx)
	}
	batch := s.encode(make([]byte, 0, b.weight), b.group)
	if len(batch) > MaxCommand {
		return errTooLarge
	}
	stalled := make(chan struct{})
	late := time.AfterFunc(stallTimeout, func() {
		defer close(stalled)
		s.waiting.stall(true)
	})
	err := s.retaining.Retain(s.ctx, batch)
	if !late.Stop() {
		<-stalled
	}
	s.waiting.stall(err != nil)
	switch {
	case s.ctx.Err() != nil && err != nil:
		return uncertain{context.Cause(s.ctx)}
	case err != nil:
		return fmt.Errorf("the cluster has not committed a retained message: %w", err)
	}
	return nil
}

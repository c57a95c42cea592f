package engine

import (
	"context"
	"sync"
	"sync/atomic"
	"time"
)

// readEpochs tell when all messages are on their way whose recipients had been
// looked up at a certain time. Who publishes is in a section from before it looks
// until it has handed the message over; beginning and ending one costs a few
// nanoseconds, and nothing where nobody asks.
type readEpochs struct {
	on      atomic.Bool
	epoch   atomic.Uint64
	stripes [16]stripe

	mu sync.Mutex // one pass at a time
}

// stripe counts sections apart from those of other lanes, which are on other
// processors.
type stripe struct {
	under [2]readers // by epoch, even and odd
	_     [6]readers // keeps lanes in cache lines of their own
}

// readers counts those that are under way.
type readers struct{ n atomic.Int64 }

// enter enters a section in a lane by a number, nil where nobody asks.
func (s *readEpochs) enter(number uint64) *readers {
	if !s.on.Load() {
		return nil
	}
	l := &s.stripes[number%uint64(len(s.stripes))]
	for {
		epoch := s.epoch.Load()
		u := &l.under[epoch%2]
		u.n.Add(1)
		if s.epoch.Load() == epoch {
			return u
		}
		u.n.Add(-1)
	}
}

func (u *readers) exit() { u.n.Add(-1) }

// readersEvery is how often a pass looks whether sections have ended.
const readersEvery = 200 * time.Microsecond

// awaitReaders waits until all sections have ended that have begun: those of an epoch, and
// those of the one before that an earlier pass gave up waiting for.
func (s *readEpochs) awaitReaders(ctx context.Context) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	for range 2 {
		old := (s.epoch.Add(1) - 1) % 2
		for i := range s.stripes {
			if err := s.stripes[i].under[old].awaitNone(ctx); err != nil {
				return err
			}
		}
	}
	return nil
}

// awaitNone waits until none is under way.
func (u *readers) awaitNone(ctx context.Context) error {
	if u.n.Load() == 0 {
		return nil
	}
	tick := time.NewTicker(readersEvery)
	defer tick.Stop()
	for u.n.Load() != 0 {
		select {
		case <-tick.C:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
	return nil
}

// AwaitRouted waits until every message whose recipients have been looked up by now is
// in their queues, and with the links of those that are at other nodes.
func (e *Engine) AwaitRouted(ctx context.Context) error { return e.publishing.awaitReaders(ctx) }

package engine

import (
	"context"
	"sync"
	"sync/atomic"
	"time"
)

// sections tell when all messages are on their way whose recipients had been
// looked up at a certain time. Who publishes is in a section from before it looks
// until it has handed the message over; beginning and ending one costs a few
// nanoseconds, and nothing where nobody asks.
type sections struct {
	on    atomic.Bool
	epoch atomic.Uint64
	lanes [16]lane

	mu sync.Mutex // one pass at a time
}

// lane counts sections apart from those of other lanes, which are on other
// processors.
type lane struct {
	under [2]section // by epoch, even and odd
	_     [6]section // keeps lanes in cache lines of their own
}

// section counts those that are under way.
type section struct{ n atomic.Int64 }

// begin enters a section in a lane by a number, nil where nobody asks.
func (s *sections) begin(number uint64) *section {
	if !s.on.Load() {
		return nil
	}
	l := &s.lanes[number%uint64(len(s.lanes))]
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

func (u *section) end() { u.n.Add(-1) }

// passEvery is how often a pass looks whether sections have ended.
const passEvery = 200 * time.Microsecond

// pass waits until all sections have ended that have begun: those of an epoch, and
// those of the one before that an earlier pass gave up waiting for.
func (s *sections) pass(ctx context.Context) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	for range 2 {
		old := (s.epoch.Add(1) - 1) % 2
		for i := range s.lanes {
			if err := s.lanes[i].under[old].await(ctx); err != nil {
				return err
			}
		}
	}
	return nil
}

// await waits until none is under way.
func (u *section) await(ctx context.Context) error {
	if u.n.Load() == 0 {
		return nil
	}
	tick := time.NewTicker(passEvery)
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

// Pass waits until every message whose recipients have been looked up by now is
// in their queues, and with the links of those that are at other nodes.
func (e *Engine) Pass(ctx context.Context) error { return e.publishing.pass(ctx) }

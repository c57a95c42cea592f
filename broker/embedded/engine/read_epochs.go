package engine

import (
	"context"
	"sync/atomic"
	"time"
)

// readEpochs detect when all messages have been queued whose recipients had been looked
// up at a certain time. A publisher is a reader from before the look-up until it has
// queued the message; entering and leaving costs a few nanoseconds, and nothing while
// on is false.
type readEpochs struct {
	on      atomic.Bool
	epoch   atomic.Uint64
	stripes [16]stripe

	turn chan struct{} // holds an element while awaitReaders runs
}

// stripe counts some of the readers, so that processors do not contend for one counter.
type stripe struct {
	under [2]readers // by epoch, even and odd
	_     [6]readers // keeps stripes in cache lines of their own
}

// readers counts the publishers of an epoch.
type readers struct{ n atomic.Int64 }

func newReadEpochs() *readEpochs { return &readEpochs{turn: make(chan struct{}, 1)} }

// enter begins a read in the stripe of a number. It returns nil while on is false.
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

// readersEvery is how often awaitReaders checks whether readers have left.
const readersEvery = 200 * time.Microsecond

// awaitReaders waits until all present readers have left: those of this epoch, and those
// of the epoch before that an earlier call gave up waiting for.
func (s *readEpochs) awaitReaders(ctx context.Context) error {
	select {
	case s.turn <- struct{}{}:
		defer func() { <-s.turn }()
	case <-ctx.Done():
		return context.Cause(ctx)
	}
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

// awaitNone waits until all readers have left.
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

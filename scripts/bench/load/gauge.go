//go:build linux

package load

import (
	"context"
	"sync"
)

// gauge bounds the messages within a stream, which drops those that it cannot queue. A
// nil gauge has no bound.
type gauge struct {
	most int64 // 0 is unbounded

	mu      sync.Mutex // protects what follows
	entered int64
	done    int64
	moved   chan struct{} // closed when done changes
}

func newGauge(most int) *gauge { return &gauge{most: int64(most), moved: make(chan struct{})} }

// enter waits until that many more messages are within the bound.
func (g *gauge) enter(ctx context.Context, n int64) error {
	if g == nil {
		return nil
	}
	return g.await(ctx, func() bool {
		if g.most > 0 && g.entered+n-g.done > g.most {
			return false
		}
		g.entered += n
		return true
	})
}

// rest waits until everything that entered is done.
func (g *gauge) rest(ctx context.Context) error {
	return g.await(ctx, func() bool { return g.done >= g.entered })
}

// await waits until is returns true, and calls it whenever done changes.
func (g *gauge) await(ctx context.Context, is func() bool) error {
	for {
		g.mu.Lock()
		ok, moved := is(), g.moved
		g.mu.Unlock()
		if ok {
			return nil
		}
		select {
		case <-moved:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// update sets how many messages the stream is done with.
func (g *gauge) update(done int64) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if done != g.done {
		g.done = done
		close(g.moved)
		g.moved = make(chan struct{})
	}
}

// passed returns how many messages the stream is done with.
func (g *gauge) passed() int64 {
	if g == nil {
		return 0
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.done
}

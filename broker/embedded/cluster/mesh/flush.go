package mesh

import (
	"context"
	"slices"
)

// flushWaiter waits until messages up to a number, and those up to a number in the backlog, are
// confirmed.
type flushWaiter struct {
	upTo, stored uint64
	done         chan struct{}
}

// Flush waits until another node has confirmed all messages above QoS 0 that were queued or
// stored so far, or was removed. A broken link for which messages wait is dialled at once.
func (m *Mesh) Flush(ctx context.Context, to int) error {
	m.mu.Lock()
	p := m.peers[to]
	m.mu.Unlock()
	if p == nil {
		return nil
	}
	l := p.link
	f := flushWaiter{done: make(chan struct{})}
	l.mu.Lock()
	f.upTo, f.stored = l.queue.lastNumber, l.backlog.Last()
	l.flushes = append(l.flushes, f)
	l.completeFlushes()
	broken := !l.linked && len(l.flushes) > 0
	l.mu.Unlock()
	if broken {
		notify(l.dialNow)
	}
	select {
	case <-f.done:
		return nil
	case <-ctx.Done():
		l.mu.Lock()
		defer l.mu.Unlock()
		l.flushes = slices.DeleteFunc(l.flushes, func(o flushWaiter) bool { return o.done == f.done })
		return context.Cause(ctx)
	}
}

// completeFlushes wakes the waiters whose messages are confirmed, or all if the peer is removed.
// l.mu must be held.
func (l *link) completeFlushes() {
	l.flushes = slices.DeleteFunc(l.flushes, func(f flushWaiter) bool {
		over := l.closed != nil || f.upTo <= l.queue.confirmed && !l.backlog.Waits(f.stored)
		if over {
			close(f.done)
		}
		return over
	})
}

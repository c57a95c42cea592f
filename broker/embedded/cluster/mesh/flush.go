package mesh

import (
	"context"
	"slices"
)

// flush is somebody who waits until messages up to a number are confirmed.
type flush struct {
	upTo uint64
	done chan struct{}
}

// Flush waits until another node has taken in all messages above QoS 0 that were
// given to its link so far, or until they were given up. Where the link is broken
// and messages wait for it, it is dialled at once.
func (m *Mesh) Flush(ctx context.Context, to int) error {
	m.mu.Lock()
	p := m.peers[to]
	m.mu.Unlock()
	if p == nil {
		return nil
	}
	l := p.link
	f := flush{done: make(chan struct{})}
	l.mu.Lock()
	f.upTo = l.queue.last
	l.flushes = append(l.flushes, f)
	l.releaseFlushes()
	broken := !l.linked && len(l.flushes) > 0
	l.mu.Unlock()
	if broken {
		signal(l.try)
	}
	select {
	case <-f.done:
		return nil
	case <-ctx.Done():
		l.mu.Lock()
		defer l.mu.Unlock()
		l.flushes = slices.DeleteFunc(l.flushes, func(o flush) bool { return o.done == f.done })
		return context.Cause(ctx)
	}
}

// releaseFlushes lets those go on for whom all is confirmed or given up. mu is held.
func (l *link) releaseFlushes() {
	l.flushes = slices.DeleteFunc(l.flushes, func(f flush) bool {
		over := l.lost || f.upTo <= l.queue.confirmed
		if over {
			close(f.done)
		}
		return over
	})
}

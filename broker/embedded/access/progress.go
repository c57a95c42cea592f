package access

import (
	"context"
	"fmt"
	"sync"
)

// progress is the applied index, and lets callers wait for one.
type progress struct {
	mu      sync.Mutex // guards what follows
	at      uint64
	changed chan struct{} // closed when at changes; nil without waiters
}

func (p *progress) index() uint64 {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.at
}

func (p *progress) set(index uint64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.at = index
	if p.changed != nil {
		close(p.changed)
		p.changed = nil
	}
}

// wait returns when changes up to the index were applied.
func (p *progress) wait(ctx context.Context, index uint64) error {
	for {
		changed, reached := p.reached(index)
		if reached {
			return nil
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return fmt.Errorf("wait for change %d: %w", index, context.Cause(ctx))
		}
	}
}

// reached reports whether the index is reached; otherwise changed is closed when it
// changes.
func (p *progress) reached(index uint64) (changed <-chan struct{}, reached bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.at >= index {
		return nil, true
	}
	if p.changed == nil {
		p.changed = make(chan struct{})
	}
	return p.changed, false
}

package access

import (
	"context"
	"fmt"
	"sync"
)

// progress is the applied index, for which others can wait.
type progress struct {
	mu    sync.Mutex // guards what follows
	at    uint64
	moved chan struct{} // closed when at changes; nil while nobody waits
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
	if p.moved != nil {
		close(p.moved)
		p.moved = nil
	}
}

// wait returns when changes up to the index were applied.
func (p *progress) wait(ctx context.Context, index uint64) error {
	for {
		moved, there := p.reached(index)
		if there {
			return nil
		}
		select {
		case <-moved:
		case <-ctx.Done():
			return fmt.Errorf("wait for change %d: %w", index, context.Cause(ctx))
		}
	}
}

// reached tells whether the index is reached, or what is closed when it moves.
func (p *progress) reached(index uint64) (moved <-chan struct{}, there bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.at >= index {
		return nil, true
	}
	if p.moved == nil {
		p.moved = make(chan struct{})
	}
	return p.moved, false
}

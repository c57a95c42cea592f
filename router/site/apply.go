package site

import (
	"context"
	"errors"
	"fmt"
	"sync"
)

// parallel is the number of steps of a phase that are done at the same time.
const parallel = 8

// Apply performs the steps of a plan in their order. It reports each step, one at a time, and
// begins none after one has failed. A plan that was interrupted can be made and applied
// again.
func (p *Plan) Apply(ctx context.Context, done func(Step, error)) error {
	for at := connections; at < phases; at++ {
		if err := p.phase(ctx, at, done); err != nil {
			return err
		}
	}
	return nil
}

func (p *Plan) phase(ctx context.Context, at phase, done func(Step, error)) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	steps := make(chan Step)
	var wait sync.WaitGroup
	var mu sync.Mutex
	var failed []error
	for range parallel {
		wait.Go(func() {
			for s := range steps {
				err := s.do(ctx)
				mu.Lock()
				done(s, err)
				if err != nil {
					failed = append(failed, fmt.Errorf("%s: %w", s, err))
					cancel()
				}
				mu.Unlock()
			}
		})
	}
	p.send(ctx, at, steps)
	close(steps)
	wait.Wait()
	if len(failed) > 0 {
		return failed[0] // the others may have been canceled by it
	}
	return context.Cause(ctx)
}

func (p *Plan) send(ctx context.Context, at phase, steps chan<- Step) {
	for _, s := range p.Steps {
		if s.phase != at || s.Action == Keep {
			continue
		}
		select {
		case steps <- s:
		case <-ctx.Done():
			return
		}
	}
}

// ErrNotConnected is a broker that has not connected yet.
var ErrNotConnected = errors.New("is not connected yet")

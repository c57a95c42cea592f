//go:build linux

package load

import (
	"context"
	"errors"
	"sync"
	"time"
)

// Forwarded is a Flow whose messages the broker forwards to another system. It waits until
// they are done there.
type Forwarded struct {
	Flow
	// Most bounds the messages that the other system has not processed; with 0 they are
	// unbounded, and only the publishers' waiting is timed.
	Most int
	// Done returns how many messages the other system has processed so far.
	Done func(context.Context) (int64, error)
}

// forwarded is a Forwarded whose clients are connected.
type forwarded struct {
	Forwarded
	flow *stream
}

// Open connects the clients.
func (g Forwarded) Open(ctx context.Context, t Target) (Session, error) {
	s, err := g.open(ctx, t)
	if err != nil {
		return nil, err
	}
	return &forwarded{g, s}, nil
}

// Close ends the connections.
func (g *forwarded) Close() error { return g.flow.Close() }

// Play plays the flow and waits until its messages are processed.
func (g *forwarded) Play(ctx context.Context, messages int) (Pass, error) {
	before, err := g.Done(ctx)
	if err != nil {
		return Pass{}, err
	}
	gauge := newGauge(g.Most)
	g.flow.gauge = gauge
	ctx, stop := context.WithCancelCause(ctx)
	var asking sync.WaitGroup
	asking.Go(func() { stop(g.poll(ctx, gauge, before)) })
	began := time.Now()
	pass, err := g.flow.Play(ctx, messages)
	if err == nil {
		err = gauge.rest(ctx)
	}
	if g.Most > 0 {
		pass.Took = time.Since(began)
	}
	stop(errDone)
	asking.Wait()
	return pass, err
}

// poll passes what Done returns to the gauge, until ctx is done or nothing changes any
// more. Its interval is long, so that the calls cost the broker little.
func (g *forwarded) poll(ctx context.Context, gauge *gauge, before int64) error {
	const breath = 20 * time.Millisecond
	again := time.NewTicker(breath)
	defer again.Stop()
	for last, moved := before, time.Now(); ; {
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-again.C:
		}
		now, err := g.Done(ctx)
		switch {
		case errors.Is(context.Cause(ctx), errDone):
			return nil
		case err != nil:
			return err
		case now != last:
			last, moved = now, time.Now()
			gauge.update(now - before)
		case time.Since(moved) > 2*patience:
			return errStuck
		}
	}
}

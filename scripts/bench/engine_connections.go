//go:build linux

package main

import (
	"context"
	"errors"
	"fmt"
	"math"
	"time"

	"signalbox/scripts/bench/load"
)

// measureConnections measures the memory of idle connections, in fresh processes.
func (b *bench) measureConnections(ctx context.Context) error {
	if err := allowFiles(b.idle); err != nil {
		return err
	}
	product, err := b.newCompetitor(ctx)
	if err != nil {
		return err
	}
	peer, err := b.newPeer(ctx)
	if err != nil {
		return err
	}
	what := fmt.Sprintf("%d idle connections, each with a subscription: memory of each, ", b.idle)
	for _, c := range []struct {
		competitor
		limit limit
	}{{product, atMost(10)}, {peer, unbounded}} {
		each, err := b.memoryPerConnection(ctx, c.competitor)
		if err != nil {
			b.report.fail(what+c.name, err)
			continue
		}
		b.report.add(what+c.name, "", samples{each}, "%.1f KiB", c.limit)
	}
	return nil
}

// memoryPerConnection returns the resident KiB that an idle connection adds.
func (b *bench) memoryPerConnection(ctx context.Context, r competitor) (each float64, err error) {
	before, err := r.memoryAfterFew(ctx)
	if err != nil {
		return 0, err
	}
	crowd, err := load.ConnectIdle(ctx, r.target, b.idle)
	if err != nil {
		return 0, err
	}
	after, err := r.server.stableMemory(ctx)
	return (after - before) * 1024 / float64(b.idle), errors.Join(err, crowd.Close())
}

// memoryAfterFew returns the resident MiB after a few short-lived connections, for what only the
// first ones allocate.
func (r competitor) memoryAfterFew(ctx context.Context) (mib float64, err error) {
	few, err := load.ConnectIdle(ctx, r.target, 100)
	if err != nil {
		return 0, err
	}
	if err := few.Close(); err != nil {
		return 0, err
	}
	return r.server.stableMemory(ctx)
}

// stableMemory returns the resident MiB once they no longer change: a runtime returns
// memory only after a while.
func (c *child) stableMemory(ctx context.Context) (mib float64, err error) {
	const looks, apart, near = 10, 500 * time.Millisecond, 0.005
	again := time.NewTicker(apart)
	defer again.Stop()
	for last := math.Inf(1); ; last = mib {
		for range looks / 5 {
			select {
			case <-again.C:
			case <-ctx.Done():
				return 0, ctx.Err()
			}
		}
		if mib, err = c.memory("VmRSS"); err != nil || math.Abs(mib-last) <= near*last {
			return mib, err
		}
	}
}

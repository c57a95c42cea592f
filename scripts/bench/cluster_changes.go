//go:build linux

package main

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"
)

// measureAgreement compares a change that a majority stores with a change at a single
// broker, and measures its throughput with many callers.
func (b *bench) measureAgreement(ctx context.Context) error {
	alone, err := b.smallProduct(ctx)
	if err != nil {
		return err
	}
	t, err := b.newSharedAccess(ctx)
	if err != nil {
		return err
	}
	leader, others, err := t.leading(ctx)
	if err != nil {
		return err
	}
	single := alone.httpAPI(ctx, b.few)
	led, followed := t.clientAPI(ctx, leader, b.few), t.clientAPI(ctx, others[0], b.few)
	before, err := b.fsync()
	if err != nil {
		return err
	}
	got, err := compare(b.rounds, single.load(1, b.creations, ""), t.load(led, leader, 1, b.creations), t.load(followed, others[0], 1, b.creations))
	if err != nil {
		return err
	}
	b.report.add("fsync of 4 KiB", "", before, "%.0f µs", unbounded)
	what := fmt.Sprintf("createClient over API, %d clients stored, cluster of %d on one machine", b.few, nodeCount)
	b.versus(what+", leader : alone", got[1], got[0], atMost(3))
	b.versus(what+", follower : alone", got[2], got[0], unbounded)
	many, err := compare(b.rounds, t.load(led, leader, writers, b.bulk), t.load(followed, others[0], writers, b.bulk))
	if err != nil {
		return err
	}
	what = fmt.Sprintf("creations a second over API, %d callers, cluster of %d", writers, nodeCount)
	b.report.add(what+", through the leader", many[0].String(), many[0].perSecond, "%.0f /s", atLeast(2_000))
	b.report.add(what+", through a follower", many[1].String(), many[1].perSecond, "%.0f /s", unbounded)
	return nil
}

// versus reports one series relative to another one: the latency of a caller, and the
// CPU of all processes.
func (b *bench) versus(what string, got, base series, l limit) {
	b.report.add(what+": p50", fmt.Sprintf("%s; %s", got, base), got.p50.over(base.p50), "%.2f ×", l)
	b.report.add(what+": CPU of all nodes", "", got.cpu.over(base.cpu), "%.2f ×", unbounded)
}

// newSharedAccess creates a cluster with shared access control, and with as many clients as
// smallProduct.
func (b *bench) newSharedAccess(ctx context.Context) (*threeNodes, error) {
	a, err := writeAccess(b.path("cluster.json"), b.few, 0)
	if err != nil {
		return nil, err
	}
	return b.newThreeNodes(ctx, "dynsec", a)
}

// clientAPI returns the API through which a node's clients are created.
func (t *threeNodes) clientAPI(ctx context.Context, node, stored int) clientAPI {
	return t.nodes[node].httpAPI(ctx, stored)
}

// load returns a load on a node, whose cost is that of all nodes.
func (t *threeNodes) load(d clientAPI, node, callers, calls int) subject {
	s := d.load(callers, calls, "")
	s.others = t.processes(node)
	return s
}

// failovers is how often the leader is killed in each round.
const failovers = 2

// measureFailover measures how long no change is acknowledged after the leader was
// killed.
func (b *bench) measureFailover(ctx context.Context) error {
	t, err := b.newSharedAccess(ctx)
	if err != nil {
		return err
	}
	return b.failOvers(ctx, t, "leader killed, until the first change is acknowledged", func(ctx context.Context, node, n int) error {
		return t.create(ctx, t.nodes[node], fmt.Sprintf("failover-%d", n))
	})
}

// failOvers kills the leader several times, and reports the times until something was done at another
// node.
func (b *bench) failOvers(ctx context.Context, t *threeNodes, title string, try func(ctx context.Context, node, n int) error) error {
	var took samples
	for range failovers * b.rounds {
		d, err := t.failOver(ctx, try)
		if err != nil {
			return err
		}
		took = append(took, d.Seconds())
	}
	what := fmt.Sprintf("%s, %d times: ", title, len(took))
	b.report.add(what+"median", "", took, "%.2f s", unbounded)
	b.report.add(what+"most", "", samples{slices.Max(took)}, "%.2f s", atMost(0.5))
	return nil
}

// failOver kills the leader, tries something at both other nodes until it is
// acknowledged, and restarts the leader.
func (t *threeNodes) failOver(ctx context.Context, try func(ctx context.Context, node, n int) error) (time.Duration, error) {
	leader, others, err := t.leading(ctx)
	if err != nil {
		return 0, err
	}
	asking, stop := context.WithCancel(ctx)
	defer stop()
	first := make(chan time.Time, len(others))
	t.nodes[leader].kill()
	began := time.Now()
	var callers sync.WaitGroup
	for _, i := range others {
		callers.Go(func() {
			for asking.Err() == nil {
				if try(asking, i, int(t.tries.Add(1))) == nil {
					first <- time.Now()
					return
				}
			}
		})
	}
	var took time.Duration
	select {
	case at := <-first:
		took = at.Sub(began)
	case <-time.After(startStopTimeout):
		err = fmt.Errorf("no change is acknowledged %v after the leader was killed", startStopTimeout)
	case <-ctx.Done():
		err = ctx.Err()
	}
	stop()
	callers.Wait()
	if err != nil {
		return 0, err
	}
	return took, t.nodes[leader].startAgain(ctx)
}

// startAgain restarts a product that was killed.
func (p *product) startAgain(ctx context.Context) error {
	_, err := p.restart(ctx)
	return err
}

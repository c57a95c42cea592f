//go:build linux

package main

import (
	"context"
	"fmt"

	"signalbox/scripts/bench/load"
)

// newMessageCluster creates a cluster that has the clients of the loads.
func (b *bench) newMessageCluster(ctx context.Context, mode string) (*threeNodes, error) {
	a, err := writeLoadAccess(b.path("cluster.json"))
	if err != nil {
		return nil, err
	}
	return b.newThreeNodes(ctx, mode, a)
}

// competitor returns the cluster as one broker, with publishers at one node and subscribers
// at another.
func (t *threeNodes) competitor(name string, publish, read int) competitor {
	p := t.nodes[publish]
	target := p.access.target(t.mqtt[publish])
	target.ReadAddr = t.mqtt[read]
	return competitor{name: name, server: p.child, others: t.processes(publish), target: target}
}

// measureReplicated measures the acknowledged messages a second where each publisher
// waits until a majority has stored its message and the subscriber's session.
func (b *bench) measureReplicated(ctx context.Context) error {
	alone, err := b.newCompetitor(ctx)
	if err != nil {
		return err
	}
	alone.name = "alone"
	t, err := b.newMessageCluster(ctx, "full")
	if err != nil {
		return err
	}
	leader, _, err := t.leading(ctx)
	if err != nil {
		return err
	}
	e, err := load.Find("durable")
	if err != nil {
		return err
	}
	before, err := b.fsync()
	if err != nil {
		return err
	}
	got, err := b.compare(ctx, e, t.competitor("full", leader, leader), alone)
	if err != nil {
		return err
	}
	b.report.add("fsync of 4 KiB", "", before, "%.0f µs", unbounded)
	b.throughput(e.Title+", cluster of three: acknowledged a second", got[0], atLeast(5_000))
	b.ratio(e.Title, got[0], got[1], unbounded)
	if !b.failed(e.Title, got[0]) && !b.failed(e.Title, got[1]) {
		b.report.add(e.Title+": messages a second, full : alone", "", got[0].perSecond.over(got[1].perSecond), "%.2f ×", unbounded)
	}
	return nil
}

// measureTakeover measures how long no message is acknowledged after the leader was
// killed, for a client that tries the other nodes in turn.
func (b *bench) measureTakeover(ctx context.Context) error {
	return b.messageFailOvers(ctx, "full", "leader killed, until the first message is acknowledged")
}

// measureReconnect measures how long the first client waits for its CONNACK at another node
// after one was killed.
func (b *bench) measureReconnect(ctx context.Context) error {
	return b.messageFailOvers(ctx, "hp", "syncmode hp: a node killed, until the first client has connected to another one and its message is acknowledged")
}

func (b *bench) messageFailOvers(ctx context.Context, mode, title string) error {
	t, err := b.newMessageCluster(ctx, mode)
	if err != nil {
		return err
	}
	return b.failOvers(ctx, t, title, func(ctx context.Context, node, n int) error {
		return t.publish(ctx, node, fmt.Sprintf("takeover-%d", n))
	})
}

// publish publishes a message of QoS 1 at a node, with a client of its own.
func (t *threeNodes) publish(ctx context.Context, node int, clientID string) error {
	w, err := dial(ctx, t.mqtt[node], clientID, loader, t.nodes[node].access.password)
	if err != nil {
		return err
	}
	defer w.conn.Close()
	const acknowledged, puback = publish | 2, 0x40
	_, err = w.ask(acknowledged, append(text(nil, "bench/takeover"), 0, 1, 'x'), puback)
	return err
}

// measureCrossing compares a message between clients of two nodes with a message that
// stays at one node, and with one at a single broker.
func (b *bench) measureCrossing(ctx context.Context) error {
	alone, err := b.newCompetitor(ctx)
	if err != nil {
		return err
	}
	alone.name = "alone"
	t, err := b.newMessageCluster(ctx, "hp")
	if err != nil {
		return err
	}
	competitors := []competitor{t.competitor("crossing", 0, 1), t.competitor("local", 0, 0), alone}
	for _, name := range []string{"pairs-0", "pairs-1", "fan-in-0"} {
		e, got, err := b.compareCrossing(ctx, name, competitors)
		if err != nil {
			return err
		}
		l := unbounded
		if name == "pairs-0" {
			l = atMost(2.5)
		}
		b.ratio(e.Title, got[0], got[1], l)
		b.ratio(e.Title, got[1], got[2], unbounded)
	}
	return b.crossingLatency(ctx, competitors)
}

// compareCrossing plays a load with competitors that share brokers: each has its own client ids.
func (b *bench) compareCrossing(ctx context.Context, name string, competitors []competitor) (e load.Scenario, got []*outcome, err error) {
	if e, err = load.Find(name); err != nil {
		return e, nil, err
	}
	var loaded []loadedCompetitor
	for _, r := range competitors {
		flow, ok := e.Load.(load.Flow)
		if !ok {
			return e, nil, fmt.Errorf("the load %s has no clients that stay", name)
		}
		own := e
		flow.Name = r.name
		own.Load = flow
		loaded = append(loaded, loadedCompetitor{r, own})
	}
	got, err = b.compareLoads(ctx, b.rounds, b.share, loaded...)
	return e, got, err
}

// crossingLatency compares the latencies of the messages.
func (b *bench) crossingLatency(ctx context.Context, competitors []competitor) error {
	e, got, err := b.compareCrossing(ctx, "latency", competitors)
	if err != nil || b.failed(e.Title, got[0]) || b.failed(e.Title, got[1]) {
		return err
	}
	figures := got[0].String() + "; " + got[1].String()
	b.report.add(e.Title+": p50, crossing : local", figures, got[0].p50.over(got[1].p50), "%.2f ×", unbounded)
	b.report.add(e.Title+": p99, crossing : local", "", got[0].p99.over(got[1].p99), "%.2f ×", atMost(3))
	return nil
}

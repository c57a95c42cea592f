//go:build linux

package main

import (
	"context"
	"fmt"

	"signalbox/scripts/bench/load"
)

// measureOverhead measures the memory of idle bridges and of a bridge with a full
// queue, and the time to start with that queue.
func (b *bench) measureOverhead(ctx context.Context) error {
	a, err := writeLoadAccess(b.path("bridges.json"))
	if err != nil {
		return err
	}
	p, err := b.newBridgedProduct(ctx, a)
	if err != nil {
		return err
	}
	if err := b.measureIdleBridges(ctx, p); err != nil {
		return err
	}
	return b.measureFullQueue(ctx, p)
}

// measureIdleBridges measures the resident memory of connections that have nothing to deliver.
func (b *bench) measureIdleBridges(ctx context.Context, p *bridgedProduct) error {
	const connections = 10
	at, err := b.newSinks(ctx)
	if err != nil {
		return err
	}
	idle := func(n int) bridgeConnection {
		return bridgeConnection{kind: httpBridge, name: fmt.Sprint("idle-", n), target: members{"url": at.HTTP}, topics: []string{fmt.Sprintf("bench/idle/%d", n)}}
	}
	first := idle(0)
	if err := p.connect(ctx, first); err != nil {
		return err
	}
	if err := p.awaitStatus(ctx, first, "it is connected", isConnected); err != nil {
		return err
	}
	before, err := p.stableMemory(ctx)
	if err != nil {
		return err
	}
	var list []bridgeConnection
	for n := range connections {
		list = append(list, idle(n+1))
	}
	if err := p.connect(ctx, list...); err != nil {
		return err
	}
	for _, c := range list {
		if err := p.awaitStatus(ctx, c, "it is connected", isConnected); err != nil {
			return err
		}
	}
	after, err := p.stableMemory(ctx)
	if err != nil {
		return err
	}
	b.report.add(fmt.Sprintf("%d idle connections of bridges: memory of each", connections), fmt.Sprintf("%.1f MiB; before %.1f MiB", after, before),
		samples{(after - before) * 1024 / connections}, "%.0f KiB", atMost(100))
	p.connections = nil
	return p.configure(ctx, httpBridge)
}

// measureFullQueue measures the resident memory while very many messages wait, and the time
// of a start with them relative to a start without.
func (b *bench) measureFullQueue(ctx context.Context, p *bridgedProduct) error {
	empty, err := b.timeRestarts(ctx, p)
	if err != nil {
		return err
	}
	lean, err := p.stableMemory(ctx)
	if err != nil {
		return err
	}
	if err := p.forgetPeak(); err != nil {
		return err
	}
	if err := b.fillQueue(ctx, p); err != nil {
		return err
	}
	waiting, err := p.stableMemory(ctx)
	if err != nil {
		return err
	}
	peak, err := p.memory("VmHWM")
	if err != nil {
		return err
	}
	starts, err := b.timeRestarts(ctx, p)
	if err != nil {
		return err
	}
	again, err := p.stableMemory(ctx)
	if err != nil {
		return err
	}
	what := fmt.Sprintf("%d messages of 150 bytes wait in a queue", b.waiting)
	b.report.add(what+": resident memory more", fmt.Sprintf("%.1f MiB; before %.1f MiB; most while they came %.1f MiB", waiting, lean, peak),
		samples{waiting - lean}, "%.1f MiB", unbounded)
	b.report.add(what+": resident memory more, after a restart", fmt.Sprintf("%.1f MiB", again), samples{again - lean}, "%.1f MiB", atMost(32))
	b.report.add(what+": start, with them : without", fmt.Sprintf("%.2f s; %.2f s", starts.median(), empty.median()), starts.over(empty), "%.2f ×", atMost(1.5))
	return nil
}

// timeRestarts returns the times of restarts, in seconds.
func (b *bench) timeRestarts(ctx context.Context, p *bridgedProduct) (seconds samples, err error) {
	for range min(b.rounds, bridgeRounds) {
		took, err := p.restart(ctx)
		if err != nil {
			return nil, err
		}
		seconds = append(seconds, took.Seconds())
	}
	return seconds, nil
}

// fillQueue publishes until that many messages wait in a queue.
func (b *bench) fillQueue(ctx context.Context, p *bridgedProduct) error {
	nowhere, err := freeAddress()
	if err != nil {
		return err
	}
	f := bridged("pile", 0)
	c := bridgeConnection{kind: natsBridge, name: "pile", target: members{"servers": []string{"nats://" + nowhere}}, topics: []string{f.Filter},
		options: members{"maxQueuedMessages": 2 * b.waiting, "maxQueuedBytes": int64(1 << 40)}}
	if err := p.connect(ctx, c); err != nil {
		return err
	}
	s, err := load.Forwarded{Flow: f, Most: maxQueued, Done: p.counting(c, accepted)}.Open(ctx, p.access.target(p.mqtt))
	if err != nil {
		return err
	}
	defer s.Close() //nolint:errcheck // it has published all
	if _, err := s.Play(ctx, b.waiting); err != nil {
		return err
	}
	last, err := p.status(ctx, c.kind, c.name)
	if err == nil && last.Stats.Dropped > 0 {
		err = fmt.Errorf("messages did not stay: %s", deliveries(last))
	}
	return err
}

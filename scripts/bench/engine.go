//go:build linux

package main

import (
	"context"
	"time"

	"signalbox/scripts/bench/load"
)

// processDurability makes messages survive the end of the process, but not a crash of
// the machine.
const processDurability = "SIGNALBOX_BROKER_DURABILITY=process"

// measureFlows compares the CPU of a million delivered messages.
func (b *bench) measureFlows(ctx context.Context) error {
	for _, c := range []struct {
		load  string
		bound float64
	}{
		{"fan-in-0", 0.4}, {"fan-in-1", 0.4}, {"fan-in-2", 0.3},
		{"fan-out-0", 0.25}, {"fan-out-1", 0.5},
		{"pairs-0", 0.55}, {"pairs-1", 0.5},
	} {
		e, got, err := b.againstAll(ctx, c.load)
		if err != nil {
			return err
		}
		b.ratio(e.Title, got[0], got[1], atMost(c.bound))
		b.ratio(e.Title, got[2], got[1], unbounded)
	}
	return nil
}

// againstAll plays a load with the product, Mosquitto and the relay.
func (b *bench) againstAll(ctx context.Context, name string) (e load.Scenario, got []*outcome, err error) {
	if e, err = load.Find(name); err != nil {
		return e, nil, err
	}
	r, err := b.sharedCompetitors(ctx)
	if err != nil {
		return e, nil, err
	}
	got, err = b.compare(ctx, e, r.product, r.mosquitto, r.relay)
	return e, got, err
}

// measureLatency compares the time from publisher to subscriber at a low load.
func (b *bench) measureLatency(ctx context.Context) error {
	e, got, err := b.againstAll(ctx, "latency")
	if err != nil {
		return err
	}
	base := got[1]
	if b.failed(e.Title, base) {
		return nil
	}
	for i, l := range []limit{atMost(1.5), unbounded, unbounded} {
		if o := got[i]; o != base && !b.failed(e.Title, o) {
			b.report.add(e.Title+": p50, "+o.name+" : Mosquitto", o.String()+"; "+base.String(), o.p50.over(base.p50), "%.2f ×", l)
			b.report.add(e.Title+": p99, "+o.name+" : Mosquitto", "", o.p99.over(base.p99), "%.2f ×", l)
		}
	}
	return nil
}

// measureCrowd compares many publishers with a message now and then: the CPU of a million
// delivered messages, and the slowest hundredth.
func (b *bench) measureCrowd(ctx context.Context) error {
	for _, c := range []struct {
		load  string
		bound float64
	}{{"crowd-0", 0.8}, {"crowd-1", 0.7}} {
		e, err := load.Find(c.load)
		if err != nil {
			return err
		}
		got, err := b.compareCrowd(ctx, e)
		if err != nil {
			return err
		}
		b.ratio(e.Title, got[0], got[1], atMost(c.bound))
		if !b.failed(e.Title, got[0]) && !b.failed(e.Title, got[1]) {
			b.report.add(e.Title+": p99, product : Mosquitto", got[0].String()+"; "+got[1].String(), got[0].p99.over(got[1].p99), "%.2f ×", atMost(1))
		}
	}
	return nil
}

// compareCrowd plays a load of many connections with brokers of its own, which may open as many
// files.
func (b *bench) compareCrowd(ctx context.Context, e load.Scenario) ([]*outcome, error) {
	if err := allowFiles(load.Crowd); err != nil {
		return nil, err
	}
	product, err := b.newCompetitor(ctx)
	if err != nil {
		return nil, err
	}
	peer, err := b.newPeer(ctx)
	if err != nil {
		return nil, err
	}
	return b.compare(ctx, e, product, peer)
}

// measureRights compares publishers with many ACLs, against Mosquitto's dynamic
// security.
func (b *bench) measureRights(ctx context.Context) error {
	r, err := b.sharedCompetitors(ctx)
	if err != nil {
		return err
	}
	peer, err := b.newGuardedPeer(ctx)
	if err != nil {
		return err
	}
	return b.compareWithPeer(ctx, "rights", r.product, peer, 0.4)
}

// compareWithPeer plays a load with the product and one Mosquitto.
func (b *bench) compareWithPeer(ctx context.Context, name string, product, peer competitor, bound float64) error {
	e, err := load.Find(name)
	if err != nil {
		return err
	}
	got, err := b.compare(ctx, e, product, peer)
	if err != nil {
		return err
	}
	b.ratio(e.Title, got[0], got[1], atMost(bound))
	return nil
}

// withFresh plays a load that leaves messages behind, with brokers of its own.
func (b *bench) withFresh(ctx context.Context, name string, bound float64, settings ...string) error {
	product, err := b.newCompetitor(ctx, settings...)
	if err != nil {
		return err
	}
	peer, err := b.newPeer(ctx)
	if err != nil {
		return err
	}
	return b.compareWithPeer(ctx, name, product, peer, bound)
}

// measureRetained compares the cost of delivering many retained messages.
func (b *bench) measureRetained(ctx context.Context) error { return b.withFresh(ctx, "retained", 1) }

// measureBacklog compares the cost of messages that wait for a client. Mosquitto has
// them in memory only.
func (b *bench) measureBacklog(ctx context.Context) error {
	return b.withFresh(ctx, "backlog", 1.5, processDurability)
}

// slowFsync is the cost of an fsync above which the rate of commits depends on the disk
// more than on the product.
const slowFsync = 200 * time.Microsecond

// measureDurable measures the acknowledged messages a second where each publisher waits
// for the fsynced commit of each message.
func (b *bench) measureDurable(ctx context.Context) error {
	product, err := b.newCompetitor(ctx)
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
	got, err := b.compare(ctx, e, product)
	if err != nil || b.failed(e.Title, got[0]) {
		return err
	}
	after, err := b.fsync()
	if err != nil {
		return err
	}
	cost := append(before, after...)
	l := atLeast(20_000)
	if cost.median() > micros(slowFsync) {
		l = unbounded
	}
	b.report.add("fsync of 4 KiB, before and after", "", cost, "%.0f µs", unbounded)
	b.report.add(e.Title+", durability full: acknowledged a second", got[0].String(), got[0].perSecond, "%.0f /s", l)
	return nil
}

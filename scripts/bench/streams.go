//go:build linux

package main

import (
	"context"
	"fmt"

	"signalbox/scripts/bench/load"
)

// namedLoad names a competitor and its load.
type namedLoad struct{ name, load string }

// withLoads returns one competitor with each of the loads of streams.
func withLoads(r competitor, loads ...namedLoad) (loaded []loadedCompetitor, err error) {
	for _, l := range loads {
		e, err := load.Find(l.load)
		if err != nil {
			return nil, err
		}
		r.name = l.name
		loaded = append(loaded, loadedCompetitor{r, e})
	}
	return loaded, nil
}

// withStreams plays loads of streams with a fresh product.
func (b *bench) withStreams(ctx context.Context, loads ...namedLoad) ([]*outcome, error) {
	product, err := b.newCompetitor(ctx)
	if err != nil {
		return nil, err
	}
	loaded, err := withLoads(product, loads...)
	if err != nil {
		return nil, err
	}
	return b.compareLoads(ctx, b.rounds, b.share, loaded...)
}

// measureRepublish compares the cost of a message that passes through a stream with
// that of a message to a subscriber, and of a message without a recipient.
func (b *bench) measureRepublish(ctx context.Context) error {
	got, err := b.withStreams(ctx,
		namedLoad{"no subscriber", load.NoSubscriber}, namedLoad{"subscriber", load.OneSubscriber},
		namedLoad{"stream", load.Republished}, namedLoad{"stream and subscriber", load.RepublishedSubscribed},
		namedLoad{"query", load.Queried}, namedLoad{"query and subscriber", load.QueriedSubscribed})
	if err != nil {
		return err
	}
	const title = "10 publishers, QoS 0, JSON of 150 bytes"
	baseline, subscriber := got[0], got[1]
	for i, l := range []limit{atMost(2), atMost(2), atMost(3), atMost(3)} {
		o := got[2+i]
		b.ratio(title, o, subscriber, l)
		b.surplus(title, o, subscriber, baseline)
	}
	return nil
}

// surplus reports the cost of one outcome relative to that of another, both above base.
func (b *bench) surplus(title string, o, other, base *outcome) {
	if o.err != nil || other.err != nil || b.failed(title, base) {
		return
	}
	b.report.add(fmt.Sprintf("the same beyond %s: CPU, %s : %s", base.name, o.name, other.name), base.String(),
		o.cpu.minus(base.cpu).over(other.cpu.minus(base.cpu)), "%.2f ×", unbounded)
}

// measurePersist measures how many messages a second a stream stores.
func (b *bench) measurePersist(ctx context.Context) error {
	before, err := b.fsync()
	if err != nil {
		return err
	}
	got, err := b.withStreams(ctx,
		namedLoad{"10 publishers, QoS 0", load.Persisted}, namedLoad{"64 publishers, QoS 1", load.PersistedSafe},
		namedLoad{"10 publishers, QoS 0, who do not wait", load.PersistedFlood})
	if err != nil {
		return err
	}
	after, err := b.fsync()
	if err != nil {
		return err
	}
	b.report.add("fsync of 4 KiB, before and after", "", append(before, after...), "%.0f µs", unbounded)
	for i, l := range []limit{atLeast(50_000), unbounded, unbounded} {
		b.throughput("persisted a second, durability full", got[i], l)
	}
	if flood := got[2]; flood.err == nil {
		b.report.add("the same: dropped of a hundred", "", flood.dropped, "%.0f", unbounded)
	}
	return nil
}

// throughput reports the messages of an outcome a second.
func (b *bench) throughput(title string, o *outcome, l limit) {
	if !b.failed(title, o) {
		b.report.add(title+": "+o.name, o.String(), o.perSecond, "%.0f /s", l)
	}
}

// measureReplay measures how many messages a second a stream replays.
func (b *bench) measureReplay(ctx context.Context) error {
	got, err := b.withStreams(ctx, namedLoad{"no subscriber", load.Replay},
		namedLoad{"1 subscriber, QoS 0", load.ReplaySubscribed}, namedLoad{"1 subscriber, QoS 1", load.ReplaySubscribedSafe})
	if err != nil {
		return err
	}
	for i, l := range []limit{atLeast(50_000), atLeast(50_000), unbounded} {
		b.throughput("replayed a second, speed 0, to", got[i], l)
	}
	return nil
}

// measureBystanders compares publishing next to many streams of which none matches with
// publishing without streams. The difference between two brokers without streams shows
// how precise the comparison is.
func (b *bench) measureBystanders(ctx context.Context) error {
	const windows, shorter = 8, 2
	var all []loadedCompetitor
	for _, l := range []namedLoad{{"none", load.NoBystanders}, {"1,000 streams", load.Bystanders}, {"none again", load.NoBystanders}} {
		product, err := b.newCompetitor(ctx)
		if err != nil {
			return err
		}
		loaded, err := withLoads(product, l)
		if err != nil {
			return err
		}
		all = append(all, loaded...)
	}
	got, err := b.compareLoads(ctx, windows*b.rounds, shorter*b.share, all...)
	if err != nil {
		return err
	}
	const title = "10 publishers → 1 subscriber, QoS 0, beside streams of which none matches"
	b.ratio(title, got[1], got[0], atMost(1.05))
	b.ratio(title, got[2], got[0], unbounded)
	if got[0].err == nil && got[1].err == nil {
		b.report.add(title+": messages a second, 1,000 streams : none", "", got[1].perSecond.over(got[0].perSecond), "%.2f ×", atLeast(0.95))
	}
	return nil
}

//go:build linux

package main

import (
	"context"
	"fmt"

	"signalbox/broker"
	"signalbox/scripts/bench/load"
	"signalbox/scripts/bench/sink"
)

// bridgeRounds is the highest number of rounds of a comparison of bridges.
const bridgeRounds = 3

// onTheWay bounds the messages in the queue of a bridge whose target is available: half
// of its capacity.
const onTheWay = 50_000

// listener is a recipient of the publishers' messages.
type listener struct {
	name  string
	heard bool // a subscriber reads them
	kept  bool // its session is persistent
	via   *conduit
	most  int
}

// listeners returns those to compare. The first two, which are not bridges, are the
// baselines.
func listeners(qos byte, at sink.Targets, nowhere string) []listener {
	endless := members{"maxQueuedMessages": 100_000_000, "maxQueuedBytes": int64(1 << 40)}
	full := func(when string) members { return members{"maxQueuedMessages": 10_000, "whenFull": when} }
	via := func(name, url string, options members) *conduit {
		return &conduit{kind: natsBridge, name: fmt.Sprintf("%s-%d", name, qos), target: members{"servers": []string{url}}, options: options}
	}
	list := []listener{
		{name: "nobody"},
		{name: "subscriber", heard: true},
		{name: "bridge, target up", via: via("up", at.NATS, nil), most: onTheWay},
		{name: "bridge, target down", via: via("down", nowhere, endless)},
		{name: "bridge, full, dropNewest", via: via("newest", nowhere, full("dropNewest"))},
		{name: "bridge, full, dropOldest", via: via("oldest", nowhere, full("dropOldest"))},
	}
	if qos > 0 {
		list[0] = listener{name: "kept subscriber", heard: true, kept: true}
	}
	return list
}

// entrant returns the load to play with the listener.
func (l listener) entrant(p *bridging, title string, f load.Flow, messages int) loadedCompetitor {
	f.Keep = l.kept
	if l.heard {
		f.Subscribers = 1
	}
	e := loadedCompetitor{p.rival(l.name), load.Scenario{Name: f.Name, Title: title, Load: f, Messages: messages}}
	if l.via == nil {
		return e
	}
	count := taken
	if l.most > 0 {
		count = gone
	}
	e.Load = load.Guided{Flow: f, Most: l.most, Done: p.counting(*l.via, count)}
	return e
}

// measurePublishers compares CPU and latency of publishers with a bridge as recipient
// to those with a subscriber.
func (b *bench) measurePublishers(ctx context.Context) error {
	at, err := b.newSinks(ctx)
	if err != nil {
		return err
	}
	a, err := writeLoadAccess(b.path("bridges.json"))
	if err != nil {
		return err
	}
	for qos := range byte(2) {
		p, err := b.newBridging(ctx, a)
		if err != nil {
			return err
		}
		if err := b.measureListeners(ctx, p, qos, at); err != nil {
			return err
		}
		if err := p.stop(); err != nil {
			return err
		}
	}
	return nil
}

func (b *bench) measureListeners(ctx context.Context, p *bridging, qos byte, at sink.Targets) error {
	nowhere, err := freeAddress()
	if err != nil {
		return err
	}
	list := listeners(qos, at, "nats://"+nowhere)
	names := make([]string, len(list))
	var conduits []conduit
	for i, l := range list {
		names[i] = fmt.Sprintf("bridges-%d-%d", qos, i)
		if l.via == nil {
			continue
		}
		l.via.topics = []string{bridged(names[i], qos).Filter, bridged(paced(names[i]), qos).Filter}
		conduits = append(conduits, *l.via)
	}
	if err := p.connect(ctx, conduits...); err != nil {
		return err
	}
	if err := p.awaitStatus(ctx, conduits[0], "it is connected", reached); err != nil {
		return err
	}
	if err := b.measureSpent(ctx, p, qos, list, names); err != nil {
		return err
	}
	if err := b.measureWaited(ctx, p, qos, list, names); err != nil {
		return err
	}
	return b.tellFates(ctx, p, conduits)
}

func paced(name string) string { return name + "-paced" }

// measureSpent plays the load without a rate limit.
func (b *bench) measureSpent(ctx context.Context, p *bridging, qos byte, list []listener, names []string) error {
	messages := map[byte]int{0: 200_000, 1: 60_000}[qos]
	title := fmt.Sprintf("64 publishers, QoS %d, JSON of 150 bytes", qos)
	var loaded []loadedCompetitor
	for i, l := range list {
		loaded = append(loaded, l.entrant(p, title, bridged(names[i], qos), messages))
	}
	got, err := b.compareLoads(ctx, min(b.rounds, bridgeRounds), b.share, loaded...)
	if err != nil {
		return err
	}
	base := got[1-qos] // the baseline with the same guarantee: for QoS 1 the persistent session
	for i, o := range got {
		if o == base || b.failed(title, o) || b.failed(title, base) {
			continue
		}
		b.ratio(title, o, base, told)
		b.report.add(fmt.Sprintf("%s: messages a second, %s : %s", title, o.name, base.name), "", o.perSecond.over(base.perSecond), "%.2f ×", spentLimit(i))
	}
	return nil
}

// spentLimit returns the lower bound of throughput for the listener at an index: a
// target that is down must not slow publishers down.
func spentLimit(place int) limit {
	const down = 3 // the first of them
	if place < down {
		return told
	}
	return atLeast(0.8)
}

// measureWaited plays 5,000 messages a second and measures the time until the publisher
// has the acknowledgement of each.
func (b *bench) measureWaited(ctx context.Context, p *bridging, qos byte, list []listener, names []string) error {
	const rate, messages = 5_000, 7_500
	title := fmt.Sprintf("64 publishers, QoS %d, 5,000 messages a second", qos)
	var loaded []loadedCompetitor
	for i, l := range list {
		f := bridged(paced(names[i]), qos)
		f.Rate, f.Acked = rate, true
		l.most = 0
		loaded = append(loaded, l.entrant(p, title, f, messages))
	}
	got, err := b.compareLoads(ctx, min(b.rounds, bridgeRounds), min(b.share, 5), loaded...)
	if err != nil {
		return err
	}
	base := got[1-qos]
	for i, o := range got {
		if o == base || b.failed(title, o) || b.failed(title, base) {
			continue
		}
		l := told
		if i > 1 {
			l = atMost(1.5)
		}
		b.report.add(fmt.Sprintf("%s: p50 until it is taken, %s : %s", title, o.name, base.name), o.String()+"; "+base.String(), o.p50.over(base.p50), "%.2f ×", told)
		b.report.add(fmt.Sprintf("%s: p99 until it is taken, %s : %s", title, o.name, base.name), "", o.p99.over(base.p99), "%.2f ×", l)
	}
	return nil
}

// tellFates reports the counters of each bridge.
func (b *bench) tellFates(ctx context.Context, p *bridging, conduits []conduit) error {
	for _, c := range conduits {
		s, err := p.status(ctx, c.kind, c.name)
		if err != nil {
			return err
		}
		b.report.add(fmt.Sprintf("messages of bridge %s dropped of a hundred", c.name), fate(s),
			samples{100 * float64(s.Stats.Dropped) / float64(max(1, s.Stats.Received))}, "%.0f", told)
	}
	return nil
}

func fate(s broker.BridgeStatus) string {
	return fmt.Sprintf("%d came, %d delivered, %d dropped, %d wait", s.Stats.Received, s.Stats.Delivered, s.Stats.Dropped, s.QueuedMessages)
}

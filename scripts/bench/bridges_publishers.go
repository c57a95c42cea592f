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

// maxQueued bounds the messages in the queue of a bridge whose target is available: half
// of its capacity.
const maxQueued = 50_000

// recipient is a recipient of the publishers' messages.
type recipient struct {
	name       string
	subscribed bool // a subscriber reads them
	persistent bool // its session is persistent
	via        *bridgeConnection
	most       int
}

// recipients returns those to compare. The first two, which are not bridges, are the
// baselines.
func recipients(qos byte, at sink.Targets, nowhere string) []recipient {
	endless := members{"maxQueuedMessages": 100_000_000, "maxQueuedBytes": int64(1 << 40)}
	full := func(when string) members { return members{"maxQueuedMessages": 10_000, "whenFull": when} }
	via := func(name, url string, options members) *bridgeConnection {
		return &bridgeConnection{kind: natsBridge, name: fmt.Sprintf("%s-%d", name, qos), target: members{"servers": []string{url}}, options: options}
	}
	list := []recipient{
		{name: "no subscriber"},
		{name: "subscriber", subscribed: true},
		{name: "bridge, target up", via: via("up", at.NATS, nil), most: maxQueued},
		{name: "bridge, target down", via: via("down", nowhere, endless)},
		{name: "bridge, full, dropNewest", via: via("newest", nowhere, full("dropNewest"))},
		{name: "bridge, full, dropOldest", via: via("oldest", nowhere, full("dropOldest"))},
	}
	if qos > 0 {
		list[0] = recipient{name: "persistent subscriber", subscribed: true, persistent: true}
	}
	return list
}

// withLoad returns the load to play with the recipient.
func (l recipient) withLoad(p *bridgedProduct, title string, f load.Flow, messages int) loadedCompetitor {
	f.Keep = l.persistent
	if l.subscribed {
		f.Subscribers = 1
	}
	e := loadedCompetitor{p.competitor(l.name), load.Scenario{Name: f.Name, Title: title, Load: f, Messages: messages}}
	if l.via == nil {
		return e
	}
	count := accepted
	if l.most > 0 {
		count = finished
	}
	e.Load = load.Forwarded{Flow: f, Most: l.most, Done: p.counting(*l.via, count)}
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
		p, err := b.newBridgedProduct(ctx, a)
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

func (b *bench) measureListeners(ctx context.Context, p *bridgedProduct, qos byte, at sink.Targets) error {
	nowhere, err := freeAddress()
	if err != nil {
		return err
	}
	list := recipients(qos, at, "nats://"+nowhere)
	names := make([]string, len(list))
	var conduits []bridgeConnection
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
	if err := p.awaitStatus(ctx, conduits[0], "it is connected", isConnected); err != nil {
		return err
	}
	if err := b.measureThroughput(ctx, p, qos, list, names); err != nil {
		return err
	}
	if err := b.measureAckLatency(ctx, p, qos, list, names); err != nil {
		return err
	}
	return b.reportDeliveries(ctx, p, conduits)
}

func paced(name string) string { return name + "-paced" }

// measureThroughput plays the load without a rate limit.
func (b *bench) measureThroughput(ctx context.Context, p *bridgedProduct, qos byte, list []recipient, names []string) error {
	messages := map[byte]int{0: 200_000, 1: 60_000}[qos]
	title := fmt.Sprintf("64 publishers, QoS %d, JSON of 150 bytes", qos)
	var loaded []loadedCompetitor
	for i, l := range list {
		loaded = append(loaded, l.withLoad(p, title, bridged(names[i], qos), messages))
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
		b.ratio(title, o, base, unbounded)
		b.report.add(fmt.Sprintf("%s: messages a second, %s : %s", title, o.name, base.name), "", o.perSecond.over(base.perSecond), "%.2f ×", throughputLimit(i))
	}
	return nil
}

// throughputLimit returns the lower bound of throughput for the recipient at an index: a
// target that is down must not slow publishers down.
func throughputLimit(place int) limit {
	const down = 3 // the first of them
	if place < down {
		return unbounded
	}
	return atLeast(0.8)
}

// measureAckLatency plays 5,000 messages a second and measures the time until the publisher
// has the acknowledgement of each.
func (b *bench) measureAckLatency(ctx context.Context, p *bridgedProduct, qos byte, list []recipient, names []string) error {
	const rate, messages = 5_000, 7_500
	title := fmt.Sprintf("64 publishers, QoS %d, 5,000 messages a second", qos)
	var loaded []loadedCompetitor
	for i, l := range list {
		f := bridged(paced(names[i]), qos)
		f.Rate, f.Acked = rate, true
		l.most = 0
		loaded = append(loaded, l.withLoad(p, title, f, messages))
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
		l := unbounded
		if i > 1 {
			l = atMost(1.5)
		}
		b.report.add(fmt.Sprintf("%s: p50 until it is taken, %s : %s", title, o.name, base.name), o.String()+"; "+base.String(), o.p50.over(base.p50), "%.2f ×", unbounded)
		b.report.add(fmt.Sprintf("%s: p99 until it is taken, %s : %s", title, o.name, base.name), "", o.p99.over(base.p99), "%.2f ×", l)
	}
	return nil
}

// reportDeliveries reports the counters of each bridge.
func (b *bench) reportDeliveries(ctx context.Context, p *bridgedProduct, conduits []bridgeConnection) error {
	for _, c := range conduits {
		s, err := p.status(ctx, c.kind, c.name)
		if err != nil {
			return err
		}
		b.report.add(fmt.Sprintf("messages of bridge %s dropped of a hundred", c.name), deliveries(s),
			samples{100 * float64(s.Stats.Dropped) / float64(max(1, s.Stats.Received))}, "%.0f", unbounded)
	}
	return nil
}

func deliveries(s broker.BridgeStatus) string {
	return fmt.Sprintf("%d came, %d delivered, %d dropped, %d wait", s.Stats.Received, s.Stats.Delivered, s.Stats.Dropped, s.QueuedMessages)
}

//go:build linux

package main

import (
	"context"
	"fmt"
	"time"

	"signalbox/broker"
	"signalbox/scripts/bench/load"
	"signalbox/scripts/bench/sink"
)

// drainBatch is the default batch size of a bridge.
const drainBatch = 256

// drain is a queue that is emptied into a target, and the rate of a bare client of that
// target.
type drain struct {
	name       string
	connection bridgeConnection
	down       members // the target while messages accumulate
	bare       func(ctx context.Context, messages int) error
	rate, peer samples // messages a second
	cpu        samples // of the product, seconds per million
}

// measureDrain measures how many queued messages a second bridges deliver once their
// targets are available.
func (b *bench) measureDrain(ctx context.Context) error {
	a, err := writeLoadAccess(b.path("bridges.json"))
	if err != nil {
		return err
	}
	p, err := b.newBridgedProduct(ctx, a)
	if err != nil {
		return err
	}
	drains, err := b.newDrains(ctx, a)
	if err != nil {
		return err
	}
	for _, d := range drains {
		d.connection.topics = []string{bridged("drain", 1).Filter}
		d.connection.options = members{"maxQueuedMessages": 10 * b.drained, "retryMaxInsertDelay": 1000}
	}
	for range min(b.rounds, 2) {
		if err := b.fillQueues(ctx, p, drains); err != nil {
			return err
		}
		for _, d := range drains {
			if err := d.measure(ctx, p, b.drained); err != nil {
				return fmt.Errorf("%s: %w", d.name, err)
			}
		}
	}
	b.reportDrains(drains)
	return nil
}

func (b *bench) reportDrains(drains []*drain) {
	for _, d := range drains {
		figures := fmt.Sprintf("CPU %.1f s a million; bare client %.0f /s", d.cpu.median(), d.peer.median())
		what := fmt.Sprintf("%d messages that waited, QoS 1, to %s", b.drained, d.name)
		b.report.add(what, figures, d.rate, "%.0f /s", unbounded)
		b.report.add(what+": bridge : bare client", "", d.rate.over(d.peer), "%.2f ×", atLeast(0.2))
	}
}

// newDrains starts the targets.
func (b *bench) newDrains(ctx context.Context, a access) ([]*drain, error) {
	at, err := b.newSinks(ctx)
	if err != nil {
		return nil, err
	}
	other, err := b.newLoaded(ctx, a)
	if err != nil {
		return nil, err
	}
	m := sink.Message{Topic: "bench/drain/000", Payload: load.Sample()}
	list := []*drain{
		{name: "HTTP, in batches", connection: bridgeConnection{kind: httpBridge, name: "http", target: members{"url": at.HTTP}, mapping: members{"batch": true}},
			bare: func(ctx context.Context, n int) error { return sink.FillHTTP(ctx, at.HTTP, m, n, drainBatch) }},
		{name: "NATS", connection: bridgeConnection{kind: natsBridge, name: "nats", target: members{"servers": []string{at.NATS}}},
			bare: func(ctx context.Context, n int) error { return sink.FillNATS(ctx, at.NATS, m, n, drainBatch) }},
		toBroker("another signalbox", a.target(other.mqtt)),
	}
	if _, err := findMosquitto(); err == nil {
		peer, err := b.newPeer(ctx)
		if err != nil {
			return nil, err
		}
		list = append(list, toBroker("Mosquitto", peer.target))
	}
	return list, list[0].pointAtClosedPorts(list)
}

// toBroker returns a drain to another MQTT broker.
func toBroker(name string, t load.Target) *drain {
	return &drain{name: name, connection: bridgeConnection{kind: mqttBridge, name: name, target: brokerAt(t)},
		bare: func(ctx context.Context, n int) error { return publishBatches(ctx, t, n) }}
}

// brokerAt returns the target members of another MQTT broker, without settings for
// bridges.
func brokerAt(t load.Target) members {
	m := members{"url": "mqtt://" + t.Addr, "notifications": false}
	if t.Username != "" {
		m["credentials"] = members{"username": t.Username, "password": t.Password}
	}
	return m
}

// publishBatches publishes from one client with at most one batch in flight.
func publishBatches(ctx context.Context, t load.Target, messages int) error {
	f := bridged("bare", 1)
	f.Publishers, f.Topics, f.Window = 1, 1, drainBatch
	s, err := f.Open(ctx, t)
	if err != nil {
		return err
	}
	defer s.Close() //nolint:errcheck // it has published all
	_, err = s.Play(ctx, messages)
	return err
}

// pointAtClosedPorts points the connections of the list to addresses without a listener.
func (*drain) pointAtClosedPorts(list []*drain) error {
	for _, d := range list {
		addr, err := freeAddress()
		if err != nil {
			return err
		}
		switch d.connection.kind {
		case httpBridge:
			d.down = members{"url": "http://" + addr}
		case natsBridge:
			d.down = members{"servers": []string{"nats://" + addr}}
		case mqttBridge:
			d.down = members{"url": "mqtt://" + addr}
		}
	}
	return nil
}

// unavailable returns the connection for the time when its target is unavailable.
func (d *drain) unavailable() bridgeConnection {
	c := d.connection
	c.target = d.down
	return c
}

// fillQueues publishes until messages wait in all queues.
func (b *bench) fillQueues(ctx context.Context, p *bridgedProduct, drains []*drain) error {
	for _, d := range drains {
		if err := p.connect(ctx, d.unavailable()); err != nil {
			return err
		}
	}
	s, err := bridged("drain", 1).Open(ctx, p.access.target(p.mqtt))
	if err != nil {
		return err
	}
	defer s.Close() //nolint:errcheck // it has published all
	pass, err := s.Play(ctx, b.drained)
	if err != nil {
		return err
	}
	for _, d := range drains {
		wait := func(s broker.BridgeStatus) bool { return s.QueuedMessages == int64(pass.Delivered) }
		if err := p.awaitStatus(ctx, d.connection, "all messages wait", wait); err != nil {
			return err
		}
	}
	return nil
}

// measure makes the target available and waits until it has received everything; then the
// bare client does the same.
func (d *drain) measure(ctx context.Context, p *bridgedProduct, messages int) error {
	first, err := p.status(ctx, d.connection.kind, d.connection.name)
	if err != nil {
		return err
	}
	before, err := p.cpu()
	if err != nil {
		return err
	}
	began := time.Now()
	if err := p.connect(ctx, d.connection); err != nil {
		return err
	}
	all := func(s broker.BridgeStatus) bool { return s.QueuedMessages == 0 }
	if err := p.awaitStatus(ctx, d.connection, "the queue is empty", all); err != nil {
		return err
	}
	took := time.Since(began)
	after, err := p.cpu()
	if err != nil {
		return err
	}
	last, err := p.status(ctx, d.connection.kind, d.connection.name)
	if err != nil {
		return err
	}
	if n := last.Stats.Delivered - first.Stats.Delivered; n != first.QueuedMessages {
		return fmt.Errorf("%d messages were delivered of %d that waited", n, first.QueuedMessages)
	}
	began = time.Now()
	if err := d.bare(ctx, messages); err != nil {
		return fmt.Errorf("its bare client: %w", err)
	}
	waited := float64(first.QueuedMessages)
	d.rate = append(d.rate, waited/took.Seconds())
	d.peer = append(d.peer, float64(messages)/time.Since(began).Seconds())
	d.cpu = append(d.cpu, (after-before).Seconds()/waited*1e6)
	return nil
}

//go:build linux

package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"time"

	"signalbox/scripts/bench/load"
)

// processBridges makes queues of bridges survive the end of the process, but not a
// crash of the machine.
const processBridges = "SIGNALBOX_BRIDGES_DURABILITY=process"

// measureBrokers compares a message from a publisher at one broker to a subscriber at
// another one with the same between two Mosquittos and their own bridge, which keeps
// its messages in memory.
func (b *bench) measureBrokers(ctx context.Context) error {
	full, err := b.newPair(ctx, "product")
	if err != nil {
		return err
	}
	process, err := b.newPair(ctx, "product, durability process", processBridges)
	if err != nil {
		return err
	}
	peer, err := b.newMosquittoPair(ctx)
	if err != nil {
		return err
	}
	for _, r := range []competitor{full, process, peer} {
		if err := probeBridge(ctx, r); err != nil {
			return err
		}
	}
	for qos := range byte(2) {
		if err := b.measureForwarded(ctx, qos, full, process, peer); err != nil {
			return err
		}
	}
	return nil
}

// measureForwarded plays the load without a rate limit, and then with 1,000 messages a
// second.
func (b *bench) measureForwarded(ctx context.Context, qos byte, competitors ...competitor) error {
	f := load.Flow{Publishers: 10, Subscribers: 1, Topics: 1, Name: fmt.Sprintf("led-%d", qos), QoS: qos, Window: 100}
	if qos > 0 {
		f.Window = 20
	}
	title := fmt.Sprintf("10 publishers → bridge → 1 subscriber at another broker, QoS %d", qos)
	rounds := min(b.rounds, bridgeRounds)
	got, err := b.compareForwarded(ctx, rounds, b.share, load.Scenario{Title: title, Load: f, Messages: 60_000}, competitors)
	if err != nil {
		return err
	}
	peer := len(competitors) - 1
	for i, o := range got[:peer] {
		l := unbounded
		if i == 0 {
			l = atMost(1)
		}
		b.ratio(title, o, got[peer], l)
		if o.err == nil && got[peer].err == nil {
			b.report.add(fmt.Sprintf("%s: messages a second, %s : Mosquitto", title, o.name), "", o.perSecond.over(got[peer].perSecond), "%.2f ×", unbounded)
		}
	}
	f.Name, f.Rate = paced(f.Name), 1_000
	title += ", 1,000 messages a second"
	if got, err = b.compareForwarded(ctx, rounds, min(b.share, 5), load.Scenario{Title: title, Load: f, Messages: 2_000}, competitors); err != nil {
		return err
	}
	for i, o := range got[:peer] {
		b.latencies(title, o, got[peer], i == 1)
	}
	return nil
}

// compareForwarded plays a load with each competitor.
func (b *bench) compareForwarded(ctx context.Context, rounds, share int, e load.Scenario, competitors []competitor) ([]*outcome, error) {
	var loaded []loadedCompetitor
	for _, r := range competitors {
		loaded = append(loaded, loadedCompetitor{r, e})
	}
	return b.compareLoads(ctx, rounds, share, loaded...)
}

// latencies reports the latencies of an outcome relative to those of base.
func (b *bench) latencies(title string, o, base *outcome, bounded bool) {
	if b.failed(title, o) || b.failed(title, base) {
		return
	}
	l := unbounded
	if bounded {
		l = atMost(3)
	}
	b.report.add(fmt.Sprintf("%s: p50, %s : %s", title, o.name, base.name), o.String()+"; "+base.String(), o.p50.over(base.p50), "%.2f ×", l)
	b.report.add(fmt.Sprintf("%s: p99, %s : %s", title, o.name, base.name), "", o.p99.over(base.p99), "%.2f ×", unbounded)
}

// newPair starts two products, the first with a bridge to the second.
func (b *bench) newPair(ctx context.Context, name string, settings ...string) (r competitor, err error) {
	a, err := writeLoadAccess(b.path("bridges.json"))
	if err != nil {
		return r, err
	}
	other, err := b.newLoaded(ctx, a)
	if err != nil {
		return r, err
	}
	p, err := b.newBridgedProduct(ctx, a, settings...)
	if err != nil {
		return r, err
	}
	c := bridgeConnection{kind: mqttBridge, name: "other", target: brokerAt(a.target(other.mqtt)), topics: []string{"bench/#"}}
	if err := p.connect(ctx, c); err != nil {
		return r, err
	}
	if err := p.awaitStatus(ctx, c, "it is connected", isConnected); err != nil {
		return r, err
	}
	r = p.competitor(name)
	r.target.ReadAddr, r.others = other.mqtt, []*child{other.child}
	return r, nil
}

// newMosquittoPair starts two Mosquittos, the first with a bridge to the second.
func (b *bench) newMosquittoPair(ctx context.Context) (r competitor, err error) {
	other, err := b.newPeer(ctx)
	if err != nil {
		return r, err
	}
	m, err := b.startMosquitto(ctx, func(*mosquitto, string) (string, error) {
		return "allow_anonymous true\nmax_queued_messages 0\nmax_inflight_messages 1000\n" +
			"connection other\naddress " + other.target.Addr + "\ntopic bench/# out 2\nnotifications false\ntry_private false\n", nil
	})
	if err != nil {
		return r, err
	}
	target := load.Target{Addr: m.addr, ReadAddr: other.target.Addr}
	return competitor{name: "Mosquitto", server: m.child, others: []*child{other.server}, target: target}, nil
}

// probeBridge waits until a message of one broker reaches the other.
func probeBridge(ctx context.Context, r competitor) error {
	from, err := dial(ctx, r.target.Addr, "bench-probe-from", r.target.Username, r.target.Password)
	if err != nil {
		return err
	}
	defer from.conn.Close()
	to, err := dial(ctx, r.target.ReadAddr, "bench-probe-to", r.target.Username, r.target.Password)
	if err != nil {
		return err
	}
	defer to.conn.Close()
	const topic = "bench/probe"
	if _, err := to.ask(subscribe, append(text([]byte{0, 1}, topic), 0), suback); err != nil {
		return err
	}
	return until(ctx, r.name+" leads messages on", func() (bool, error) {
		if err := from.send(publish, append(text(nil, topic), "probe"...)); err != nil {
			return false, err
		}
		return to.receivesAny()
	})
}

// receivesAny reports whether a packet arrives within a moment.
func (w *wire) receivesAny() (bool, error) {
	const moment = 200 * time.Millisecond
	if err := w.conn.SetReadDeadline(time.Now().Add(moment)); err != nil {
		return false, err
	}
	_, err := w.r.Peek(1)
	var late net.Error
	if errors.As(err, &late) && late.Timeout() || errors.Is(err, os.ErrDeadlineExceeded) {
		return false, nil
	}
	return err == nil, err
}

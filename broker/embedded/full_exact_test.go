package embedded

import (
	"context"
	"sync"
	"testing"

	"signalbox/broker/control"
)

// TestExactlyOnce moves the leadership, and stops and restarts leaders, while clients with
// persistent sessions publish and receive. What was acknowledged arrives, and at QoS 2
// exactly once.
func TestExactlyOnce(t *testing.T) {
	t.Parallel()
	all := newCluster(t, 3, "full", func(first *node) { allow(t, first.Broker, "dev", everything()...) })
	readers := []*roamingClient{newRoamer(t, all, "reader 1"), newRoamer(t, all, "reader 2")}
	for i, r := range readers {
		d := join(t, all.serving(t).Broker, 5, as("dev", "pw"), withID(r.ID), persistent)
		d.Subscribe(byte(i+1), "news/#")
		d.Conn.Close()
		r.known = true
	}
	publishers := []*roamingClient{newRoamer(t, all, "one"), newRoamer(t, all, "two"), newRoamer(t, all, "two more")}
	writing, endWriting := context.WithCancel(t.Context())
	reading, endReading := context.WithCancel(t.Context())
	var writers, others sync.WaitGroup
	defer others.Wait()
	defer endReading()
	for i, p := range publishers {
		writers.Go(func() { p.roam(writing, func() error { return p.publishNext(byte(min(i+1, 2))) }) })
	}
	for _, r := range readers {
		others.Go(func() { r.roam(reading, r.receive) })
	}
	for round := range 9 {
		leader := all.serving(t)
		atLeast := make([]int64, len(publishers))
		for i, p := range publishers {
			atLeast[i] = p.count.Load() + 10
		}
		eventually(t, "messages are published", func() bool {
			return publishers[0].count.Load() > atLeast[0] && publishers[1].count.Load() > atLeast[1] && publishers[2].count.Load() > atLeast[2]
		})
		next := all[leader.at.NodeID%3]
		if round%3 < 2 {
			leader.AskHA(t.Context(), control.SetLeader("plant", next.at.NodeID), nil) //nolint:errcheck // another node may lead already
		} else {
			leader.stop()
			all.serving(t)
			leader.start()
		}
		eventually(t, "all nodes are there", all.areAll)
	}
	endWriting()
	writers.Wait()
	for _, r := range readers {
		r.awaitAll(publishers)
	}
	for _, r := range append(readers, publishers...) {
		if r.lost > 0 {
			t.Errorf("%s lost its session %d times", r.ID, r.lost)
		}
	}
	for _, p := range publishers {
		t.Logf("%s: %d messages", p.ID, p.count.Load())
	}
	for payload, n := range readers[1].times() {
		if n > 1 && payload[:3] == "two" {
			t.Errorf("%q was received %d times", payload, n)
		}
	}
}

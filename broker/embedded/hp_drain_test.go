package embedded

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"

	"signalbox/broker/mqtt/mqtttest/packet"
)

// TestHPDrain stops a node with the session of a client that is away and that of a connected
// one: both continue at the other nodes, with what is queued.
func TestHPDrain(t *testing.T) {
	t.Parallel()
	address := func(n *node) string {
		if n.at.NodeID == 2 {
			return "" // not configured
		}
		return fmt.Sprintf("node-%d.example:1883", n.at.NodeID)
	}
	all := gatherHP(t, unhurried, func(n *node) { n.config.Cluster.ClientAddress = address(n) }) // which wait long for a node of which they do not know that it has stopped
	away := join(t, all[0].Broker, 5, as("dev", "pw"), withID("away"), persistent)
	away.Subscribe(1, "way/#")
	away.Conn.Close()
	away.wantForgotten(all[0].Broker)
	there := join(t, all[0].Broker, 5, as("dev", "pw"), withID("there"), persistent)
	there.Subscribe(1, "way/#")
	writer := join(t, all[1].Broker, 5, as("dev", "pw"))
	for i := range 5 {
		writer.publishAll(fmt.Sprint("way/", i), 1)
		there.take()
	}
	stopped := make(chan struct{})
	go func() { defer close(stopped); all[0].stop() }()
	if pk := there.Want(packet.Disconnect); pk.Reason != 0x9c || pk.Properties.ServerReference != address(all[2]) {
		t.Errorf("DISCONNECT code %#x, server reference %q", pk.Reason, pk.Properties.ServerReference)
	}
	<-stopped
	for i := 5; i < 10; i++ {
		writer.publishAll(fmt.Sprint("way/", i), 1)
	}
	for name, from := range map[string]int{"away": 0, "there": 5} {
		next := dial(t, all[2].Broker, 5)
		if ack := next.SendConnect(as("dev", "pw"), withID(name), persistent); ack.Reason != 0 || !ack.Present {
			t.Fatalf("%s: CONNACK code %d, session present %v", name, ack.Reason, ack.Present)
		}
		for i := from; i < 10; i++ {
			if pk := next.take(); pk.Topic != fmt.Sprint("way/", i) {
				t.Errorf("%s got %s, want way/%d", name, pk.Topic, i)
			}
		}
	}
}

// TestHPRollingRestart restarts all nodes, one after the other, while clients publish and
// receive: no session and no acknowledged message is lost.
func TestHPRollingRestart(t *testing.T) {
	t.Parallel()
	all := gatherHP(t, unhurried)
	addresses := all.others(nil)
	readers := []*roamingClient{newRoamer(t, addresses, "reader 1"), newRoamer(t, addresses, "reader 2")}
	for i, r := range readers {
		d := join(t, all[i].Broker, 5, as("dev", "pw"), withID(r.ID), persistent)
		d.Subscribe(byte(i+1), "news/#")
		d.Conn.Close()
		r.known = true
	}
	publishers := []*roamingClient{newRoamer(t, addresses, "one"), newRoamer(t, addresses, "two")}
	writing, endWriting := context.WithCancel(t.Context())
	reading, endReading := context.WithCancel(t.Context())
	var writers, others sync.WaitGroup
	defer others.Wait()
	defer endReading()
	for i, p := range publishers {
		writers.Go(func() { p.roam(writing, func() error { return p.publishNext(byte(i + 1)) }) })
	}
	for _, r := range readers {
		others.Go(func() { r.roam(reading, r.receive) })
	}
	for _, n := range all {
		atLeast := []int64{publishers[0].count.Load() + 10, publishers[1].count.Load() + 10}
		eventually(t, "messages are published", func() bool {
			return publishers[0].count.Load() > atLeast[0] && publishers[1].count.Load() > atLeast[1]
		})
		n.stop()
		n.start()
		eventually(t, "all nodes are there", all.areAll)
		all.linked(t)
	}
	endWriting()
	writers.Wait()
	for _, r := range readers {
		r.awaitAll(publishers)
		if r.lost > 0 {
			t.Errorf("%s lost its session %d times", r.ID, r.lost)
		}
	}
	endReading()
	others.Wait()
	for payload, n := range readers[1].times() {
		if n > 1 && strings.HasPrefix(payload, publishers[1].ID) {
			t.Errorf("%q was received %d times at QoS 2", payload, n)
		}
	}
	for _, p := range append(publishers, readers...) {
		t.Logf("%s: %d messages, %d lost sessions, at most %v without a connection", p.ID, p.count.Load(), p.lost, p.waited)
	}
}

package embedded

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"signalbox/broker/control"
	"signalbox/broker/embedded/cluster/mesh"
	"signalbox/broker/mqtt/mqtttest/packet"
)

// TestHPRestart publishes at a node that was just restarted a message with a subscriber at
// another one.
func TestHPRestart(t *testing.T) {
	t.Parallel()
	all := gatherHP(t)
	reader := join(t, all[1].Broker, 5, as("dev", "pw"))
	reader.Subscribe(1, "news/#")
	for round := range 5 {
		all[0].stop()
		all[0].start()
		topic := fmt.Sprint("news/", round)
		join(t, all[0].Broker, 5, as("dev", "pw")).publishAll(topic, 1)
		if got := reader.Settled(); len(got) != 1 || got[0] != topic {
			t.Errorf("the reader got %v, want %s", got, topic)
		}
	}
}

// TestHPPartition isolates one node, and reconnects it. What each side can do alone goes
// on; no client waits for longer than the grace period.
func TestHPPartition(t *testing.T) {
	t.Parallel()
	w := newNetwork(t)
	all := gatherHP(t, w.attach)
	near, far := all[0], all[2]
	nearReader, farReader := reading(t, near, "news/#"), reading(t, far, "news/#")
	joinPatient(t, near).publishAll("news/before", 1)
	nearReader.wantTopic("news/before")
	farReader.wantTopic("news/before")

	w.isolate(all, far, true)
	for _, side := range []struct {
		name string
		*node
		reader *device
	}{{"near", near, nearReader}, {"far", far, farReader}} {
		t.Run(side.name, func(t *testing.T) { testPartition(t, side.name, side.node, side.reader) })
	}
	w.isolate(all, far, false)
	all.linked(t)
	eventually(t, "all are in contact, and have the log", func() bool {
		l := all.leader()
		return l != nil && all.areAll() && !slices.ContainsFunc(all, func(n *node) bool {
			return n.cluster.node.Status().LastApplied < l.cluster.node.Status().LastApplied
		})
	})
	for _, n := range []*node{near, far} {
		p := joinPatient(t, n)
		p.publishAll("news/after", 2)
		nearReader.wantTopic("news/after")
		farReader.wantTopic("news/after")
		p.Send(p.Message("kept/x", fmt.Sprint(n.at.NodeID), 1, true))
		if code := p.Want(packet.Puback).Reason; code >= 0x80 {
			t.Errorf("node %d answers a retained message with %#x", n.at.NodeID, code)
		}
	}
	for _, n := range all {
		eventually(t, fmt.Sprintf("node %d retains what the others do", n.at.NodeID), func() bool {
			return n.retains("kept/x") == "3" && n.retains("kept/far") == "" && n.retains("kept/near") == "x"
		})
	}
}

// testPartition publishes on one side for subscribers on each.
func testPartition(t *testing.T, name string, n *node, reader *device) {
	p := joinPatient(t, n)
	began := time.Now()
	p.publishAll("news/parted", 1)
	waited := time.Since(began) // for the grace period
	reader.wantTopic("news/parted")
	var fastest time.Duration // of some messages, as the machine may be busy during one
	for attempt := 0; attempt == 0 || attempt < 5 && name == "near" && fastest > waited/2; attempt++ {
		began = time.Now()
		p.publishAll("news/gone", 2)
		if took := time.Since(began); attempt == 0 || took < fastest {
			fastest = took
		}
		reader.wantTopic("news/gone")
	}
	if name == "near" && fastest > waited/2 { // the far side has waited meanwhile
		t.Errorf("with the others given up a message is acknowledged after %v, and before after %v", fastest, waited)
	}

	if name == "near" {
		p.retain("kept/near", "x") // once the remaining nodes have a leader
		return
	}
	began = time.Now()
	p.Send(p.Message("kept/"+name, "x", 1, true))
	ack := p.Want(packet.Puback)
	t.Logf("%s: retained message answered with %#x after %v", name, ack.Reason, time.Since(began))
	if ack.Reason < 0x80 {
		t.Errorf("a retained message is answered with %#x", ack.Reason)
	}
	began = time.Now()
	p.Send(p.Message("kept/"+name, "x", 1, true))
	p.Want(packet.Puback)
	t.Logf("%s: the next one after %v", name, time.Since(began))
}

// reading joins as a reader with a long timeout.
func reading(t *testing.T, n *node, filters ...string) *device {
	t.Helper()
	d := joinPatient(t, n)
	for _, code := range d.Subscribe(2, filters...) {
		if code > 2 {
			t.Fatalf("SUBACK code %#x", code)
		}
	}
	return d
}

// joinPatient joins as a client that waits for longer than the broker's timeouts, however
// slow the machine is.
func joinPatient(t *testing.T, n *node, options ...connectOption) *device {
	t.Helper()
	d := join(t, n.Broker, 5, append([]connectOption{as("dev", "pw")}, options...)...)
	d.Patience = 10 * time.Minute
	return d
}

func (d *device) wantTopic(topic string) {
	d.T.Helper()
	if pk := d.take(); pk.Topic != topic {
		d.T.Errorf("got %s, want %s", pk.Topic, topic)
	}
}

// retains returns the payload that a node retains for a topic.
func (n *node) retains(topic string) string {
	_, kept := n.engine.Retained(topic, 0, 1)
	if len(kept) == 0 {
		return ""
	}
	return string(kept[0].Payload)
}

// TestHPFailedNode has a node fail whose session a client has. The client does not wait at another
// node for the time in which nodes may respond, since the failed one refuses connections, and gets
// what waits in that session once the node is back.
func TestHPFailedNode(t *testing.T) {
	t.Parallel()
	all := gatherHP(t, unhurried, func(n *node) { n.config.Cluster.DrainTimeout = 0 }) // as if it was killed: it announces nothing
	failed := all[2]
	reader := join(t, failed.Broker, 5, as("dev", "pw"), withID("reader"), persistent)
	reader.Subscribe(2, "news/#")
	reader.Conn.Close()
	reader.wantForgotten(failed.Broker)
	writer := joinPatient(t, all[0])
	for i := range 6 {
		writer.publishAll(fmt.Sprint("news/", i), byte(1+i%2))
	}
	failed.stop()
	next := dial(t, all[1].Broker, 5)
	if ack := next.SendConnect(as("dev", "pw"), withID("reader"), persistent); ack.Reason != 0 || ack.Present {
		t.Fatalf("CONNACK code %d, session present %v", ack.Reason, ack.Present)
	}
	next.Subscribe(2, "news/#")
	failed.start()
	for i := range 6 {
		next.wantTopic(fmt.Sprint("news/", i))
	}
	all.linked(t)
	writer.publishAll("news/last", 2)
	next.wantTopic("news/last")
	if n := failed.Losses().Total(mesh.LostSuperseded); n != 0 {
		t.Errorf("%d messages are counted as lost", n)
	}
}

// TestHPLeaves removes a node while one of its clients waits for nodes that do not respond:
// the client gets its CONNACK.
func TestHPLeaves(t *testing.T) {
	t.Parallel()
	w := newNetwork(t)
	all := gatherHP(t, w.attach)
	n := all[2]
	reading(t, all[0], "news/#")
	p := joinPatient(t, n)
	p.publishAll("news/1", 1)
	w.isolate(all, n, true)
	p.Send(p.Message("news/2", "x", 1, false))
	n.ask(control.LeaveCluster("plant", n.at), nil)
	if ack := p.Want(packet.Puback); ack.Reason >= 0x80 {
		t.Errorf("answered with %#x", ack.Reason)
	}
	p.publishAll("news/3", 1)
}

package embedded

import (
	"fmt"
	"slices"
	"testing"

	"signalbox/broker"
	"signalbox/broker/control"
	"signalbox/broker/mqtt/mqtttest/packet"
	"signalbox/scripts/suite"
)

// gatherHP creates an HP cluster of three nodes.
func gatherHP(t *testing.T, each ...func(*node)) nodes {
	t.Helper()
	all := newCluster(t, 3, "hp", func(first *node) {
		allow(t, first.Broker, "dev", append(everything(), acl(broker.SubscribePattern, "$share/g/#", true))...)
	}, each...)
	all.linked(t)
	return all
}

// unhurried makes a node that claims a client wait for nodes that are only slow to respond.
func unhurried(n *node) { n.config.Times.Claims = suite.HangLimit }

// linked waits until all running nodes have links to all others.
func (all nodes) linked(t *testing.T) {
	t.Helper()
	eventually(t, "all nodes are linked", func() bool {
		running := all.others(nil)
		for _, n := range running {
			if n.links() != len(running)-1 {
				return false
			}
		}
		return true
	})
}

// links returns the number of other nodes that this one can send messages to.
func (n *node) links() (linked int) {
	if p := n.cluster.peering.Load(); p != nil {
		for _, f := range p.mesh.Figures() {
			if f.Linked {
				linked++
			}
		}
	}
	return linked
}

// TestHPMessages publishes on each node for subscribers on each.
func TestHPMessages(t *testing.T) {
	all := gatherHP(t)
	for qos := range byte(3) {
		t.Run(fmt.Sprint("QoS ", qos), func(t *testing.T) { testHPMessages(t, all, qos) })
	}
}

func testHPMessages(t *testing.T, all nodes, qos byte) {
	var readers, writers []*device
	for _, n := range all {
		r := join(t, n.Broker, 5, as("dev", "pw"))
		r.Subscribe(qos, fmt.Sprintf("q%d/#", qos), fmt.Sprintf("q%d/+/1", qos))
		readers = append(readers, r)
		writers = append(writers, join(t, n.Broker, 5, as("dev", "pw")))
	}
	const messages = 50
	for i := range messages {
		for k, w := range writers {
			w.publishAll(fmt.Sprintf("q%d/%d/%d", qos, k, i), qos)
		}
	}
	for k, r := range readers {
		got := map[string][]string{}
		for range messages * len(writers) {
			pk := r.take()
			if pk.QoS != qos {
				t.Fatalf("QoS %d, want %d", pk.QoS, qos)
			}
			var from, i int
			if _, err := fmt.Sscanf(pk.Topic, fmt.Sprintf("q%d/%%d/%%d", qos), &from, &i); err != nil {
				t.Fatal(err)
			}
			got[fmt.Sprint(from)] = append(got[fmt.Sprint(from)], fmt.Sprint(i))
		}
		if rest := r.Settled(); len(rest) > 0 {
			t.Errorf("reader at node %d got %d more: %v", k+1, len(rest), rest)
		}
		for from, numbers := range got {
			var want []string
			for i := range messages {
				want = append(want, fmt.Sprint(i))
			}
			if !slices.Equal(numbers, want) {
				t.Errorf("reader at node %d, writer %s: got %v", k+1, from, numbers)
			}
		}
	}
}

// publishAll sends a message and completes its QoS flow.
func (d *device) publishAll(topic string, qos byte) {
	d.T.Helper()
	m := d.Message(topic, "x", qos, false)
	d.Send(m)
	switch qos {
	case 1:
		d.Want(packet.Puback)
	case 2:
		d.Want(packet.Pubrec)
		d.Send(packet.Packet{Type: packet.Pubrel, ID: m.ID})
		d.Want(packet.Pubcomp)
	}
}

// take returns the next message, and completes its QoS flow.
func (d *device) take() packet.Packet {
	d.T.Helper()
	for {
		pk, err := d.Next()
		if err != nil {
			d.T.Fatal(err)
		}
		answer := packet.Packet{ID: pk.ID}
		switch {
		case pk.Type == packet.Pubrel:
			answer.Type = packet.Pubcomp
			d.Send(answer)
			continue
		case pk.Type != packet.Publish:
			d.T.Fatalf("got a packet of type %d, code %#x", pk.Type, pk.Reason)
		case pk.QoS == 1:
			answer.Type = packet.Puback
			d.Send(answer)
		case pk.QoS == 2:
			answer.Type = packet.Pubrec
			d.Send(answer)
		}
		return pk
	}
}

// TestHPClient connects one client to each node in turn: it and its session are at that
// node only.
func TestHPClient(t *testing.T) {
	all := gatherHP(t, unhurried)
	first := join(t, all[0].Broker, 5, as("dev", "pw"), withID("wanderer"), persistent)
	first.Subscribe(1, "way/#")
	before := first
	for round := range 6 {
		n := all[(round+1)%3]
		writer := join(t, all[round%3].Broker, 5, as("dev", "pw"))
		next := dial(t, n.Broker, 5)
		if ack := next.SendConnect(as("dev", "pw"), withID("wanderer"), persistent); ack.Reason != 0 || !ack.Present {
			t.Fatalf("round %d: CONNACK code %d, session present %v", round, ack.Reason, ack.Present)
		}
		if pk := before.Want(packet.Disconnect); pk.Reason != 0x8e {
			t.Errorf("round %d: DISCONNECT code %#x", round, pk.Reason)
		}
		topic := fmt.Sprint("way/", round)
		writer.publishAll(topic, 1)
		if pk := next.take(); pk.Topic != topic {
			t.Fatalf("round %d: got %s", round, pk.Topic)
		}
		for _, other := range all {
			eventually(t, "the client is at one node", func() bool { // the others may be about to delete it
				_, _, err := other.engine.Client("wanderer")
				return (err == nil) == (other == n)
			})
		}
		before = next
	}
	before.Conn.Close()
	before.wantForgotten(all[0].Broker)
	writer := join(t, all[2].Broker, 5, as("dev", "pw"))
	for i := range 10 {
		writer.publishAll(fmt.Sprint("way/queued/", i), 1)
	}
	last := dial(t, all[1].Broker, 5)
	if ack := last.SendConnect(as("dev", "pw"), withID("wanderer"), persistent); !ack.Present {
		t.Fatal("there is no session")
	}
	for i := range 10 {
		pk := last.take()
		if want := fmt.Sprint("way/queued/", i); pk.Topic != want {
			t.Fatalf("got %s, want %s", pk.Topic, want)
		}
	}
}

// retain publishes a retained message. It is refused while there is no leader, or if a busy
// machine takes longer than the broker waits.
func (d *device) retain(topic, payload string) {
	d.T.Helper()
	eventually(d.T, "it is retained", func() bool {
		d.Send(d.Message(topic, payload, 1, true))
		return d.Want(packet.Puback).Reason < 0x80
	})
}

// TestHPRetained retains messages on each node, and expects them on each.
func TestHPRetained(t *testing.T) {
	all := gatherHP(t)
	for i, n := range all {
		w := join(t, n.Broker, 5, as("dev", "pw"))
		w.retain(fmt.Sprint("kept/", i), "x")
	}
	stopped := all[1]
	stopped.stop()
	w := join(t, all[2].Broker, 5, as("dev", "pw"))
	w.retain("kept/away", "x")
	w.retain("kept/0", "")
	stopped.start()
	want := []string{"kept/1", "kept/2", "kept/away"}
	for _, n := range all {
		eventually(t, fmt.Sprintf("node %d has all that is retained", n.at.NodeID), func() bool {
			var got []string
			_, kept := n.engine.Retained("kept/#", 0, -1)
			for _, m := range kept {
				got = append(got, m.Topic)
			}
			return slices.Equal(got, want)
		})
	}
	all.leading(t).ask(control.DeleteCluster("plant"), nil)
	for _, n := range all {
		eventually(t, "every node is alone", func() bool { return n.cluster.peering.Load() == nil })
		d := join(t, n.Broker, 5, as("dev", "pw"))
		d.Subscribe(0, "kept/#")
		if got := d.Settled(); len(got) != len(want) {
			t.Errorf("node %d retains %v", n.at.NodeID, got)
		}
		join(t, n.Broker, 5, as("dev", "pw")).publishAll("kept/alone", 1)
	}
}

// TestHPShared expects messages for a shared subscription at one of its members, at
// whichever node.
func TestHPShared(t *testing.T) {
	all := gatherHP(t)
	var members []*device
	for _, n := range all {
		m := join(t, n.Broker, 5, as("dev", "pw"))
		if codes := m.Subscribe(1, "$share/g/work/#"); codes[0] != 1 {
			t.Fatalf("SUBACK code %d", codes[0])
		}
		members = append(members, m)
	}
	w := join(t, all[0].Broker, 5, as("dev", "pw"))
	const messages = 60
	for i := range messages {
		w.publishAll(fmt.Sprint("work/", i), 1)
	}
	got := map[string]int{}
	for i, m := range members {
		mine := m.Settled()
		if len(mine) == 0 {
			t.Errorf("the member at node %d got nothing", i+1)
		}
		for _, topic := range mine {
			got[topic]++
		}
	}
	if len(got) != messages {
		t.Errorf("%d of %d messages arrived", len(got), messages)
	}
	for topic, n := range got {
		if n != 1 {
			t.Errorf("%s arrived %d times", topic, n)
		}
	}
}

package embedded

import (
	"fmt"
	"net"
	"slices"
	"testing"

	"signalbox/broker/control"
	"signalbox/broker/mqtt/mqtttest/packet"
)

// TestFull creates a cluster that shares everything, stops the leader repeatedly, and
// expects what was acknowledged.
func TestFull(t *testing.T) {
	all := newCluster(t, 3, "full", func(first *node) {
		allow(t, first.Broker, "dev", everything()...)
		publisher := join(t, first.Broker, 5, as("dev", "pw"), withID("publisher"))
		publisher.Send(publisher.Message("before", "kept", 1, true))
		publisher.Want(packet.Puback)
	})
	reader := join(t, all.serving(t).Broker, 5, as("dev", "pw"), withID("reader"), persistent)
	if codes := reader.Subscribe(2, "news/#"); codes[0] != 2 {
		t.Fatalf("SUBACK code %d", codes[0])
	}
	reader.Conn.Close()

	var want []string
	for round := range 3 {
		leader := all.serving(t)
		for _, n := range all.others(leader) {
			if !n.open(1) {
				t.Errorf("node %d is closed to administrators", n.at.NodeID)
			}
			n.administrator().Conn.Close()
		}
		publisher := join(t, leader.Broker, 5, as("dev", "pw"))
		for i := range 20 {
			topic := fmt.Sprintf("news/%d/%d", round, i)
			publisher.Publish(topic, "x", 1)
			want = append(want, topic)
		}
		leader.stop()
		next := all.serving(t)
		if next == leader {
			t.Fatal("a node serves that was stopped")
		}
		leader.start()
		eventually(t, "the node is back", all.areAll)
	}
	got := readAll(t, all.serving(t), len(want))
	if !slices.Equal(got, want) {
		t.Errorf("the reader got %d messages: %v\nwant %d: %v", len(got), got, len(want), want)
	}
	newcomer := join(t, all.serving(t).Broker, 5, as("dev", "pw"))
	newcomer.Subscribe(0, "before")
	if pk := newcomer.Want(packet.Publish); string(pk.Payload) != "kept" || !pk.Retain {
		t.Errorf("retained %q", pk.Payload)
	}

	all.serving(t).ask(control.DeleteCluster("plant"), nil)
	eventually(t, "every node serves by itself", func() bool { return all[0].open(0) && all[1].open(0) && all[2].open(0) })
	for _, n := range all {
		d := join(t, n.Broker, 5, as("dev", "pw"))
		d.Subscribe(0, "before")
		if pk := d.Want(packet.Publish); string(pk.Payload) != "kept" {
			t.Errorf("node %d retains %q", n.at.NodeID, pk.Payload)
		}
	}
}

// administrator joins over the listener for administrators.
func (n *node) administrator() *device {
	n.t.Helper()
	conn, err := net.Dial("tcp", n.config.Listeners[0].Address)
	if err != nil {
		n.t.Fatal(err)
	}
	d := newDevice(n.t, conn, 5)
	if ack := d.SendConnect(as(adminName, adminPassword)); ack.Reason != 0 {
		n.t.Fatalf("CONNACK code %d", ack.Reason)
	}
	return d
}

func (n *node) inContact() int { return n.cluster.node.Figures().InContact }

// readAll reads what is queued for the reader.
func readAll(t *testing.T, n *node, count int) (topics []string) {
	t.Helper()
	reader := dial(t, n.Broker, 5)
	if ack := reader.SendConnect(as("dev", "pw"), withID("reader"), persistent); !ack.Present {
		t.Fatal("there is no session")
	}
	for range count {
		pk := reader.Want(packet.Publish)
		topics = append(topics, pk.Topic)
		reader.Send(packet.Packet{Type: packet.Puback, ID: pk.ID})
	}
	return append(topics, reader.Settled()...)
}

// TestFullLeavesWithoutAdminOnly removes a node whose listener for administrators was
// removed from the configuration meanwhile.
func TestFullLeavesWithoutAdminOnly(t *testing.T) {
	t.Parallel()
	all := newCluster(t, 1, "full", func(*node) {})
	n := all.serving(t)
	n.stop()
	n.config.Listeners = nil
	n.start()
	eventually(t, "the node leads again", func() bool { return n.cluster.node.IsLeader() })
	n.ask(control.DeleteCluster("plant"), nil)
	eventually(t, "the node serves by itself", func() bool { return n.open(0) })
}

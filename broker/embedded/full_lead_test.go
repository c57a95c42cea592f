package embedded

import (
	"fmt"
	"net"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"signalbox/broker/control"
	"signalbox/broker/mqtt/mqtttest/packet"
)

// TestLeaderCannotServe elects a node that cannot open its listener. Another one serves
// then, and so does the first once it can.
func TestLeaderCannotServe(t *testing.T) {
	t.Parallel()
	all := newCluster(t, 3, "full", func(first *node) { allow(t, first.Broker, "dev", everything()...) })
	leader := all.serving(t)
	reader := join(t, leader.Broker, 5, as("dev", "pw"), withID("reader"), persistent)
	reader.Subscribe(1, "news/#")

	unlucky := all.others(leader)[0]
	eventually(t, "the port is free", func() bool { return !unlucky.open(0) })
	taken, err := net.Listen("tcp", unlucky.config.Listen)
	if err != nil {
		t.Fatal(err)
	}
	defer taken.Close()
	leader.ask(control.SetLeader("plant", unlucky.at.NodeID), nil)
	var serving *node
	eventually(t, "another node serves clients", func() bool {
		for _, n := range all.others(unlucky) {
			if n.open(0) && n.leads() {
				serving = n
			}
		}
		return serving != nil
	})
	publisher := join(t, serving.Broker, 5, as("dev", "pw"))
	publisher.Publish("news/1", "x", 1)

	taken.Close()
	serving.ask(control.SetLeader("plant", unlucky.at.NodeID), nil)
	if n := all.serving(t); n != unlucky {
		t.Errorf("node %d serves, want %d", n.at.NodeID, unlucky.at.NodeID)
	}
	if got := readAll(t, unlucky, 1); got[0] != "news/1" {
		t.Errorf("got %v", got)
	}
}

// TestLeadAgain interrupts a leadership with a transfer that fails: the node leads again in
// the same term, and has everything it had before.
func TestLeadAgain(t *testing.T) {
	t.Parallel()
	all := newCluster(t, 3, "full", func(first *node) { allow(t, first.Broker, "dev", everything()...) })
	leader := all.serving(t)
	reader := join(t, leader.Broker, 5, as("dev", "pw"), withID("reader"), persistent)
	reader.Subscribe(1, "news/#")
	reader.Conn.Close()
	gone := all.others(leader)[0]
	gone.stop()
	term := leader.cluster.node.Term()

	var acknowledged atomic.Int64
	ended := make(chan struct{})
	publisher := join(t, leader.Broker, 5, as("dev", "pw"))
	go func() {
		defer close(ended)
		for {
			publisher.Send(publisher.Message("news/1", "x", 1, false))
			if pk, err := publisher.Next(); err != nil || pk.Type != packet.Puback || pk.Reason != 0 {
				return
			}
			acknowledged.Add(1)
		}
	}()
	eventually(t, "messages are published", func() bool { return acknowledged.Load() > 9 })
	if err := leader.AskHA(t.Context(), control.SetLeader("plant", gone.at.NodeID), nil); err == nil {
		t.Error("a node leads that was stopped")
	}
	<-ended // with the leadership
	count := int(acknowledged.Load())
	leader = all.serving(t)
	t.Logf("node %d leads in term %d, which was %d", leader.at.NodeID, leader.cluster.node.Term(), term)
	second := join(t, leader.Broker, 5, as("dev", "pw"))
	second.Publish("news/2", "x", 1)
	got := readAll(t, leader, count+1)
	if len(got) > count+2 || got[len(got)-1] != "news/2" { // one may be stored and not acknowledged
		t.Errorf("got %d messages, the last %q; want %d, the last news/2", len(got), got[len(got)-1], count+1)
	}
}

// TestFullRefersClients moves the leadership: clients of MQTT 5 are referred to the addresses of the
// other nodes, which the leader has asked for since it leads.
func TestFullRefersClients(t *testing.T) {
	t.Parallel()
	address := func(id int) string { return fmt.Sprintf("node-%d.example:1883", id) }
	all := newCluster(t, 3, "full", func(first *node) { allow(t, first.Broker, "dev", everything()...) },
		func(n *node) { n.config.Cluster.ClientAddress = address(n.at.NodeID) })
	eventually(t, "clients are referred to the other nodes", func() bool {
		leader := all.serving(t)
		next := all[leader.at.NodeID%3]
		c := join(t, leader.Broker, 5, as("dev", "pw"))
		leader.ask(control.SetLeader("plant", next.at.NodeID), nil)
		end := c.Want(packet.Disconnect)
		got := strings.Fields(end.Properties.ServerReference)
		if end.Reason != 0x9c || slices.Contains(got, address(leader.at.NodeID)) {
			t.Errorf("DISCONNECT code %#x, server reference %q of node %d", end.Reason, got, leader.at.NodeID)
		}
		return len(got) == 2
	})
}

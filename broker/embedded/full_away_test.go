package embedded

import (
	"testing"

	"signalbox/broker/control"
	"signalbox/broker/mqtt/mqtttest/packet"
)

// TestFullRemovedWhileAway removes a node that is down. After its restart it serves by
// itself, with its state, and the last node goes on alone.
func TestFullRemovedWhileAway(t *testing.T) {
	t.Parallel()
	all := newCluster(t, 3, "full", func(first *node) { allow(t, first.Broker, "dev", everything()...) })
	leader := all.serving(t)
	publisher := join(t, leader.Broker, 5, as("dev", "pw"))
	publisher.Send(publisher.Message("before", "kept", 1, true))
	publisher.Want(packet.Puback)
	away := all.others(leader)[0]
	eventually(t, "the node has it", func() bool {
		return away.cluster.node.Status().LastApplied >= leader.cluster.node.Status().LastApplied
	})
	away.stop()
	leader.ask(control.RemoveNode("plant", away.at), nil)
	away.start()
	eventually(t, "it serves by itself", func() bool { return away.open(0) })
	for _, n := range []*node{away, leader} {
		d := join(t, n.Broker, 5, as("dev", "pw"), withID("reader"), persistent)
		d.Subscribe(1, "before")
		if pk := d.Want(packet.Publish); string(pk.Payload) != "kept" {
			t.Errorf("node %d retains %q", n.at.NodeID, pk.Payload)
		}
	}
	third := all.others(leader)[1]
	if third == away {
		third = all.others(leader)[0]
	}
	leader.ask(control.RemoveNode("plant", third.at), nil)
	eventually(t, "the third serves by itself", func() bool { return third.open(0) })
	leader.stop()
	leader.start()
	eventually(t, "the cluster of one serves", func() bool { return leader.open(0) && leader.cluster.node.IsLeader() })
	d := dial(t, leader.Broker, 5)
	if ack := d.SendConnect(as("dev", "pw"), withID("reader"), persistent); !ack.Present {
		t.Error("the session does not exist")
	}
}

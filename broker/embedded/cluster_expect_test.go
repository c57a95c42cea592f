package embedded

import (
	"strings"
	"testing"

	"signalbox/broker/control"
	"signalbox/broker/mqtt/packet"
)

// TestExpectedCluster starts nodes on empty directories that expect a cluster. They serve
// administrators only until they are in it, and again after they have left it, with what they
// have kept.
func TestExpectedCluster(t *testing.T) {
	for _, mode := range []string{"dynsec", "hp", "full"} {
		t.Run(mode, func(t *testing.T) {
			t.Parallel()
			testExpectedCluster(t, mode)
		})
	}
}

func testExpectedCluster(t *testing.T, mode string) {
	t.Helper()
	expects := func(n *node) { n.config.Cluster.Expect = "plant" }
	first := startNode(t, 1)
	n := startNode(t, 2, expects)
	n.wantAwaiting(t)
	all := nodes{first, n}
	other := all.spec(mode, 2, nil)
	other.ClusterName = "office"
	if err := n.AskHA(t.Context(), control.CreateCluster(other), &control.HACreated{}); err == nil || !strings.Contains(err.Error(), "cluster.expect") {
		t.Errorf("creating another cluster: %v", err)
	}
	n.stop()
	n.start()
	n.wantAwaiting(t)

	var created control.HACreated
	first.ask(control.CreateCluster(all.spec(mode, 1, nil)), &created)
	n.ask(control.JoinCluster(all.spec(mode, 2, &created.Invitations[0])), nil)
	eventually(t, "all nodes have a vote", func() bool { return all.voters() == 2 })
	eventually(t, "the node is healthy", func() bool { return n.Healthy(t.Context()) == nil })
	if mode == "full" {
		all.serving(t)
		return
	}
	eventually(t, "the node serves", func() bool { return n.open(0) })
	n.stop()
	first.stop() // a node that is restarted alone serves what it has
	n.start()
	eventually(t, "the node serves again", func() bool { return n.open(0) })
	first.start()
	eventually(t, "the node is healthy again", func() bool { return n.Healthy(t.Context()) == nil && all.areAll() })

	d := dial(t, n.Broker, 5)
	if got := d.SendConnect(as(adminName, adminPassword), withID("stays"), persistent).Reason; got != 0 {
		t.Fatalf("CONNACK code %d", got)
	}
	n.ask(control.LeaveCluster("plant", n.at), nil)
	d.WantDisconnect(packet.ReasonUseAnotherServer)
	eventually(t, "the node is locked again", func() bool { return !n.open(0) })
	n.wantAwaiting(t)
	if _, _, err := n.engine.Client("stays"); err != nil {
		t.Errorf("the session is gone: %v", err)
	}
}

// wantAwaiting checks that the node serves administrators only, and is not healthy for that reason.
func (n *node) wantAwaiting(t *testing.T) {
	t.Helper()
	if n.open(0) || !n.open(1) {
		t.Errorf("the ordinary listener is open: %v, that of administrators: %v", n.open(0), n.open(1))
	}
	if err := n.Healthy(t.Context()); err == nil || !strings.Contains(err.Error(), `let into the cluster "plant"`) {
		t.Errorf("health: %v", err)
	}
}

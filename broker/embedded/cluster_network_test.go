package embedded

import (
	"net"
	"strconv"
	"testing"

	"signalbox/scripts/suite"
)

// testNetwork is the connections between the cluster ports of nodes.
type testNetwork struct {
	*suite.Network
	t *testing.T
}

func newNetwork(t *testing.T) *testNetwork { return &testNetwork{suite.NewNetwork(t), t} }

// attach routes the connections to a node through this network. A connecting node is
// identified by its address.
func (w *testNetwork) attach(n *node) {
	_, port, _ := net.SplitHostPort(n.config.Cluster.Listen)
	n.config.Cluster.Listen = net.JoinHostPort("127.0.0."+strconv.Itoa(100+n.at.NodeID), port)
	_, port, _ = net.SplitHostPort(w.Attach(w.t, n.at.NodeID, n.config.Cluster.Listen))
	n.at.Port, _ = strconv.Atoi(port)
}

// isolate cuts a node off from all others, or reconnects it.
func (w *testNetwork) isolate(all nodes, n *node, apart bool) {
	for _, other := range all {
		between := suite.Between(n.at.NodeID, other.at.NodeID)
		if other != n && apart {
			w.Cut(between...)
		} else if other != n {
			w.Heal(between...)
		}
	}
}

package embedded

import (
	"context"
	"log/slog"
	"net"
	"slices"
	"strconv"
	"testing"
	"time"

	"signalbox/broker/brokertest"
	"signalbox/broker/control"
	"signalbox/broker/embedded/listen"
	"signalbox/scripts/suite"
)

// node is a broker that can be a cluster node, and can be stopped and started.
type node struct {
	*Broker
	t      *testing.T
	config Config
	dir    string
	at     control.HANode
}

// electionTimeout is long, so that no leader is replaced only because the machine is busy.
const electionTimeout = 5 * time.Second

// startNode runs a broker with a cluster port, and a listener for administrators in
// addition to its ordinary listener.
func startNode(t *testing.T, id int, prepare ...func(*node)) *node {
	t.Helper()
	n := &node{t: t, config: testConfig(), dir: t.TempDir()}
	n.config.Listen = brokertest.FreePort(t, "127.0.0.1")
	n.config.Listeners = []listen.Config{adminListener(brokertest.FreePort(t, "127.0.0.1"))}
	n.config.Cluster.Listen = brokertest.FreePort(t, "127.0.0.1")
	n.config.Cluster.ElectionTimeout = electionTimeout
	host, port, _ := net.SplitHostPort(n.config.Cluster.Listen)
	number, _ := strconv.Atoi(port)
	n.at = control.HANode{NodeID: id, Address: host, Port: number}
	for _, p := range prepare {
		p(n)
	}
	n.start()
	t.Cleanup(n.stop)
	return n
}

// adminListener is a listener for administrators only.
func adminListener(address string) listen.Config {
	return listen.Config{Protocol: "mqtt", Address: address, AdminOnly: true}
}

func (n *node) start() {
	n.t.Helper()
	b, err := New(n.t.Context(), n.config, n.dir, slog.New(slog.NewTextHandler(testLog{n.t}, nil)).With("node", n.at.NodeID))
	if err != nil {
		n.t.Fatalf("New: %v", err)
	}
	if err := b.Start(n.t.Context()); err != nil {
		n.t.Fatalf("Start: %v", err)
	}
	n.Broker = b
}

// stop closes the broker, if it is running.
func (n *node) stop() {
	if n.Broker == nil {
		return
	}
	if err := n.Close(context.WithoutCancel(n.t.Context())); err != nil {
		n.t.Errorf("Close: %v", err)
	}
	n.Broker = nil
}

// nodes are the nodes of a cluster.
type nodes []*node

// newCluster creates a cluster.
func newCluster(t *testing.T, count int, mode string, prepare func(*node), each ...func(*node)) nodes {
	t.Helper()
	var all nodes
	for i := range count {
		all = append(all, startNode(t, i+1, each...))
	}
	prepare(all[0])
	var created control.HACreated
	all[0].ask(control.CreateCluster(all.spec(mode, 1, nil)), &created)
	for i := range created.Invitations {
		n := all[i+1]
		n.ask(control.JoinCluster(all.spec(mode, n.at.NodeID, &created.Invitations[i])), nil)
	}
	eventually(t, "all nodes have a vote", func() bool { return all.voters() == count })
	return all
}

func (all nodes) spec(mode string, mine int, invitation *control.Invitation) control.HASpec {
	s := control.HASpec{ClusterName: "plant", SyncMode: mode, Invitation: invitation}
	for _, n := range all {
		at := n.at
		at.Mine = at.NodeID == mine
		s.Nodes = append(s.Nodes, at)
	}
	return s
}

// ask executes a command on a node.
func (n *node) ask(c control.HACommand, data any) {
	n.t.Helper()
	ctx, cancel := context.WithTimeout(n.t.Context(), suite.HangLimit)
	defer cancel()
	if err := n.AskHA(ctx, c, data); err != nil {
		n.t.Fatalf("%s at node %d: %v", c.Name(), n.at.NodeID, err)
	}
}

// voters returns the number of voters according to the leader.
func (all nodes) voters() (voters int) {
	leader := all.leader()
	if leader == nil {
		return 0
	}
	for _, s := range leader.cluster.node.Status().Nodes {
		if s.Role == 1 {
			voters++
		}
	}
	return voters
}

// leader returns the node that leads, nil for none.
func (all nodes) leader() *node {
	for _, n := range all {
		if n.Broker != nil && n.cluster.node.IsLeader() {
			return n
		}
	}
	return nil
}

// leading returns the node that leads, once there is one.
func (all nodes) leading(t *testing.T) (leader *node) {
	t.Helper()
	eventually(t, "a node leads", func() bool {
		leader = all.leader()
		return leader != nil
	})
	return leader
}

// areAll reports whether all nodes are voters, are in contact with their leader and know of
// no later election: a node that does makes the leader resign.
func (all nodes) areAll() bool {
	leader := all.leader()
	return leader != nil && all.voters() == len(all) && leader.inContact() == len(all) &&
		!slices.ContainsFunc(all, func(n *node) bool {
			return n.Broker == nil || n.cluster.node.Term() != leader.cluster.node.Term()
		})
}

// others returns all running nodes but one.
func (all nodes) others(but *node) (others nodes) {
	for _, n := range all {
		if n != but && n.Broker != nil {
			others = append(others, n)
		}
	}
	return others
}

// open reports whether a listener accepts connections: 0 is the ordinary one, 1 that for
// administrators.
func (n *node) open(listener int) bool {
	address := n.config.Listen
	if listener == 1 {
		address = n.config.Listeners[0].Address
	}
	conn, err := net.DialTimeout("tcp", address, time.Second)
	if err != nil {
		return false
	}
	conn.Close()
	return true
}

// leads reports whether the node serves clients as the leader of its cluster, and is not
// changing its serving state: a node that has handed over the leadership may not have
// noticed yet.
func (n *node) leads() bool {
	m := n.cluster
	m.transition.Lock()
	defer m.transition.Unlock()
	return m.serving == leading && m.leadership.IsCurrent()
}

// serving returns the only node whose ordinary listener is open, once there is exactly one
// and it leads.
func (all nodes) serving(t *testing.T) *node {
	t.Helper()
	var found *node
	eventually(t, "one node serves clients", func() bool {
		found = nil
		count := 0
		for _, n := range all {
			if n.Broker != nil && n.open(0) {
				found = n
				count++
			}
		}
		return count == 1 && found.leads()
	})
	return found
}

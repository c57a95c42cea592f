// Package clusters creates and shows clusters of brokers: it controls the nodes through the
// control topic of clusters, regardless of which service runs them.
//
// The nodes determine what a cluster is. Only the set of its brokers is stored, so that they can
// be asked. Every response of a node may be late or lost: a change first observes all nodes, can
// be repeated where it stopped, and is undone if it fails. A broker joins in this order:
// JoinCluster (join.go) stores the node, asks the leader for an invitation (AddNode), and the broker
// to accept it (joinCluster), which an embedded broker does with cluster.Node.Join, and waits until
// the leader has reached the broker (awaitContact).
//
// Of this module the package imports broker and broker/control only; it must not import a
// database, net/http or an MQTT library.
package clusters

import (
	"context"
	"log/slog"
	"net"
	"slices"
	"strconv"
	"sync"
	"time"

	"signalbox/broker"
	"signalbox/broker/control"
)

// Cluster is a cluster of a project, with its nodes in the order of their numbers.
type Cluster struct {
	ID        string
	ProjectID string
	Name      string
	SyncMode  string
	Nodes     []Node

	joining int // number of a node that is among Nodes and not yet in the cluster
}

// Node is a broker of a cluster. Its connection is the broker connection BrokerID at URL or, if
// Own is set, Target.
type Node struct {
	broker.ClusterNodeRef
	Own    bool
	Inside bool // the connection uses no listener of the broker
	URL    string
}

// Rows stores clusters and finds the brokers of nodes. Its errors are a [*broker.Error] if a
// caller can act on them: NotFound, Exists, Invalid.
type Rows interface {
	Clusters(ctx context.Context, projectID string) ([]Cluster, error)
	Cluster(ctx context.Context, projectID, clusterID string) (Cluster, error)
	// Create stores a cluster and returns its id.
	Create(ctx context.Context, c Cluster) (id string, err error)
	AddNode(ctx context.Context, clusterID string, n Node) error
	RemoveNode(ctx context.Context, clusterID string, nodeID int) error
	Delete(ctx context.Context, projectID, clusterID string) error

	// Resolve returns how the broker of a node is reached: by a connection of the project, or by
	// the target. An error of kind Invalid names the field.
	Resolve(ctx context.Context, projectID string, ref broker.ClusterNodeRef) (Node, error)
	// Reach returns the broker of a node, which may not be connected yet.
	Reach(ctx context.Context, projectID string, n Node) (Asker, error)
	// Release closes the connection of a broker that is no longer a node, if it belonged to the
	// node.
	Release(ctx context.Context, n Node)
}

// Asker is a broker that accepts commands of [control.HATopic].
type Asker interface {
	// AskHA sends a command once and reads the data of the response into data, nil for none. The
	// error is a [*broker.Error], that of [control.ReadHA] if there was a response: Unavailable
	// if nothing was sent, Unconfirmed after that, Unsupported if the broker does not support
	// clusters.
	AskHA(ctx context.Context, c control.HACommand, data any) error
}

// Clusters manages the clusters of all projects. It implements [broker.Clusters].
type Clusters struct {
	rows   Rows
	log    *slog.Logger
	timing timing
	slots  chan struct{} // one per command in flight; further commands wait until their context ends

	mu   sync.Mutex // guards busy; never held during callbacks
	busy map[string]struct{}
}

var _ broker.Clusters = (*Clusters)(nil)

// timing holds the timeouts.
type timing struct {
	observe   time.Duration // to observe all nodes
	change    time.Duration // for a command that changes something
	enter     time.Duration // for one with which a node enters a cluster
	leader    time.Duration // until a new cluster has a leader that lists all nodes
	contact   time.Duration // until the leader has reached new nodes that wait for it
	votes     time.Duration // until new nodes have a vote
	departure time.Duration // until a node learns that it has left its cluster
	poll      time.Duration // between two observations
	undo      time.Duration // to undo a failed change
}

var defaultTiming = timing{
	observe: 3 * time.Second, change: 15 * time.Second, enter: 30 * time.Second, leader: 10 * time.Second, contact: 6 * time.Second,
	votes: 5 * time.Second, departure: 2 * time.Second, poll: 100 * time.Millisecond, undo: 20 * time.Second,
}

// maxCommands is the maximum number of commands in flight.
const maxCommands = 64

// New returns the clusters that rows stores. It logs to log, which must not be nil.
func New(rows Rows, log *slog.Logger) *Clusters {
	return &Clusters{rows: rows, log: log, timing: defaultTiming,
		slots: make(chan struct{}, maxCommands), busy: map[string]struct{}{}}
}

// lock locks keys for a change, unless one of them is locked.
func (c *Clusters) lock(op string, keys ...string) (release func(), err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, key := range keys {
		if _, taken := c.busy[key]; taken {
			return nil, &broker.Error{Kind: broker.Conflict, Op: op, Msg: "another change of this cluster, or of a node, is under way"}
		}
	}
	for _, key := range keys {
		c.busy[key] = struct{}{}
	}
	return func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		for _, key := range keys {
			delete(c.busy, key)
		}
	}, nil
}

// keys returns what a change of nodes locks: their brokers, however they are reached.
func keys(nodes ...Node) []string {
	keys := make([]string, len(nodes))
	for i, n := range nodes {
		keys[i] = "broker/" + n.BrokerID
		if n.Own {
			keys[i] = "url/" + n.URL
		}
	}
	return keys
}

// openLocked returns a cluster that is locked for a change. The change must use a context of
// broker.WithFreshAttempt, so that a node that was just started responds.
func (c *Clusters) openLocked(ctx context.Context, op, projectID, clusterID string) (Cluster, func(), error) {
	release, err := c.lock(op, "cluster/"+clusterID)
	if err != nil {
		return Cluster{}, nil, err
	}
	cluster, err := c.rows.Cluster(ctx, projectID, clusterID)
	if err != nil {
		release()
		return Cluster{}, nil, err
	}
	return cluster, release, nil
}

// openNode is openLocked for a change of one of the nodes, which it returns, too.
func (c *Clusters) openNode(ctx context.Context, op, projectID, clusterID string, nodeID int) (cl Cluster, n Node, release func(), err error) {
	if cl, release, err = c.openLocked(ctx, op, projectID, clusterID); err != nil {
		return cl, n, nil, err
	}
	if n, err = cl.find(broker.ClusterNodeRef{NodeID: nodeID}); err != nil {
		release()
	}
	return cl, n, release, err
}

// ha returns the node as commands represent it.
func (n Node) ha() control.HANode {
	return control.HANode{NodeID: n.NodeID, Address: n.Address, Port: n.Port}
}

// hostPort returns the address of the node's cluster port.
func (n Node) hostPort() string { return net.JoinHostPort(n.Address, strconv.Itoa(n.Port)) }

// String returns the node's name in messages.
func (n Node) String() string {
	s := "node " + strconv.Itoa(n.NodeID)
	if n.Name != "" {
		s += " (" + n.Name + ")"
	}
	return s
}

// haNodes returns the nodes of a cluster as commands represent them, with the receiver marked.
func (cl Cluster) haNodes(mine Node) []control.HANode {
	nodes := make([]control.HANode, len(cl.Nodes))
	for i, n := range cl.Nodes {
		nodes[i] = n.ha()
		nodes[i].Mine = n.NodeID == mine.NodeID
	}
	return nodes
}

// spec returns the cluster as commands represent it.
func (cl Cluster) spec(mine Node) control.HASpec {
	return control.HASpec{ClusterName: cl.Name, SyncMode: cl.SyncMode, Nodes: cl.haNodes(mine)}
}

// owner returns the cluster that has a broker connection as a node.
func owner(stored []Cluster, n Node) *Cluster {
	for i, cl := range stored {
		if !n.Own && slices.ContainsFunc(cl.Nodes, func(o Node) bool { return !o.Own && o.BrokerID == n.BrokerID }) {
			return &stored[i]
		}
	}
	return nil
}

// with returns the cluster with one more node.
func (cl Cluster) with(n Node) Cluster {
	cl.joining = n.NodeID
	cl.Nodes = append(slices.Clone(cl.Nodes), n)
	slices.SortStableFunc(cl.Nodes, func(a, b Node) int { return a.NodeID - b.NodeID })
	return cl
}

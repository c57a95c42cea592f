// Package clusters makes clusters of brokers: it drives the nodes through the
// control topic of clusters, whoever's brokers they are, and shows how they are.
//
// A cluster is what its nodes say it is. What is stored is which brokers belong
// to it, so that they can be asked. Every answer of a node may be late or lost:
// a change first looks at all nodes, is repeatable where it broke off, and undoes
// what it began if it fails.
//
// Of this module it imports broker and broker/control only; it must not import a
// database, net/http or an MQTT library.
package clusters

import (
	"context"
	"log/slog"
	"slices"
	"strconv"
	"sync"
	"time"

	"signalbox/broker"
	"signalbox/broker/control"
)

// Cluster is a cluster that a project knows, with its nodes in the order of
// their numbers.
type Cluster struct {
	ID        string
	ProjectID string
	Name      string
	SyncMode  string
	Nodes     []Node

	joining int // the number of a node that is among Nodes and not yet in the cluster
}

// Node is a broker of a cluster. It is reached by the broker connection BrokerID
// at URL or, where Own is set, by Target.
type Node struct {
	broker.ClusterNodeRef
	Own bool
	URL string
}

// Rows is where clusters are stored and their nodes' brokers are found. Its
// errors are a [*broker.Error] where a caller can act on them: NotFound, Exists,
// Invalid.
type Rows interface {
	Clusters(ctx context.Context, projectID string) ([]Cluster, error)
	Cluster(ctx context.Context, projectID, clusterID string) (Cluster, error)
	// Create stores a cluster and gives its id.
	Create(ctx context.Context, c Cluster) (id string, err error)
	AddNode(ctx context.Context, clusterID string, n Node) error
	RemoveNode(ctx context.Context, clusterID string, nodeID int) error
	Delete(ctx context.Context, projectID, clusterID string) error

	// Resolve says by what the broker of a node is reached: a connection of the
	// project, or the target. An error of kind Invalid names the field.
	Resolve(ctx context.Context, projectID string, ref broker.ClusterNodeRef) (Node, error)
	// Reach gives the broker of a node, which need not be connected yet.
	Reach(ctx context.Context, projectID string, n Node) (Asker, error)
	// Release ends the connection of a broker that is no node any more, if it was
	// the node's own.
	Release(ctx context.Context, n Node)
}

// Asker is a broker that takes commands of [control.HATopic].
type Asker interface {
	// AskHA sends a command once and reads the data of its answer into data, nil
	// for none. The error is a [*broker.Error], that of [control.ReadHA] where
	// there is an answer: Unavailable while nothing was sent, Unconfirmed after
	// that, Unsupported where the broker knows no clusters.
	AskHA(ctx context.Context, c control.HACommand, data any) error
}

// Clusters is the clusters of all projects. It implements [broker.Clusters].
type Clusters struct {
	rows   Rows
	log    *slog.Logger
	timing timing
	slots  chan struct{} // one per question under way; who finds none waits as long as its context

	mu   sync.Mutex // guards busy; never held while calling out
	busy map[string]struct{}
}

var _ broker.Clusters = (*Clusters)(nil)

// timing is how long things take at most.
type timing struct {
	look   time.Duration // to ask all nodes how they are
	change time.Duration // for a command that changes something
	settle time.Duration // until a new cluster has a leader that counts all nodes
	rally  time.Duration // until new nodes count for the majority
	notice time.Duration // until a node hears that it is out of its cluster
	pause  time.Duration // between two looks at it
	undo   time.Duration // for undoing what failed
}

var defaultTiming = timing{
	look: 3 * time.Second, change: 15 * time.Second, settle: 10 * time.Second,
	rally: 5 * time.Second, notice: 2 * time.Second, pause: 100 * time.Millisecond, undo: 20 * time.Second,
}

// maxQuestions bounds how many nodes are asked at the same time.
const maxQuestions = 64

// New makes the clusters that rows holds. It logs to log, which must not be nil.
func New(rows Rows, log *slog.Logger) *Clusters {
	return &Clusters{rows: rows, log: log, timing: defaultTiming,
		slots: make(chan struct{}, maxQuestions), busy: map[string]struct{}{}}
}

// claim takes something for a change, unless another one has it.
func (c *Clusters) claim(op string, keys ...string) (release func(), err error) {
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

// open finds a cluster and takes it for a change. The change asks nodes with a
// context of broker.WithFreshAttempt: one that was just started answers.
func (c *Clusters) open(ctx context.Context, op, projectID, clusterID string) (Cluster, func(), error) {
	release, err := c.claim(op, "cluster/"+clusterID)
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

// ha gives a node as commands name it.
func (n Node) ha() control.HANode {
	return control.HANode{NodeID: n.NodeID, Address: n.Address, Port: n.Port}
}

// String names the node in messages.
func (n Node) String() string {
	s := "node " + strconv.Itoa(n.NodeID)
	if n.Name != "" {
		s += " (" + n.Name + ")"
	}
	return s
}

// haNodes gives the nodes of a cluster as commands name them, the receiver's
// marked.
func (cl Cluster) haNodes(mine Node) []control.HANode {
	nodes := make([]control.HANode, len(cl.Nodes))
	for i, n := range cl.Nodes {
		nodes[i] = n.ha()
		nodes[i].Mine = n.NodeID == mine.NodeID
	}
	return nodes
}

// spec gives the cluster as a node is told it.
func (cl Cluster) spec(mine Node) control.HASpec {
	return control.HASpec{ClusterName: cl.Name, SyncMode: cl.SyncMode, Nodes: cl.haNodes(mine)}
}

// with gives the cluster with one more node.
func (cl Cluster) with(n Node) Cluster {
	cl.joining = n.NodeID
	cl.Nodes = append(slices.Clone(cl.Nodes), n)
	slices.SortStableFunc(cl.Nodes, func(a, b Node) int { return a.NodeID - b.NodeID })
	return cl
}

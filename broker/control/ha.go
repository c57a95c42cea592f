package control

import (
	"context"
	"errors"
	"slices"
	"strings"

	"signalbox/broker"
	"signalbox/broker/dynsec"
)

// HATopic is the control topic of clusters.
const HATopic = "$CONTROL/cedalo/ha/v1"

// The commands of HATopic.
const (
	opCreateCluster = "createCluster"
	opJoinCluster   = "joinCluster"
	opAddNode       = "addNode"
	opRemoveNode    = "removeNode"
	opLeaveCluster  = "leaveCluster"
	opDeleteCluster = "deleteCluster"
	opGetCluster    = "getCluster"
	opGetRaftStatus = "getRaftStatus"
	opIsLeader      = "isLeader"
	opSetLeader     = "setLeader"
	opDrainNode     = "drainNode"
	opUndrainNode   = "undrainNode"
	opUndoJoin      = "undoJoin"
)

// The errors of a node of a cluster. The first two are the texts of other brokers as
// well. Callers distinguish them with errors.Is.
const (
	ErrInCluster   refusal = "This broker is already part of a cluster."
	ErrNotLeader   refusal = "This broker is not the cluster leader."
	ErrNoCluster   refusal = "This broker is not part of a cluster."
	ErrClusterName refusal = "This broker is part of another cluster."
	ErrNoLeader    refusal = "The cluster has no leader: nothing was changed, try again."
	ErrNoNode      refusal = "Node not found"
	ErrMember      refusal = "Node is already part of the cluster."
	ErrSyncMode    refusal = "This broker does not offer this syncmode."
	ErrExpected    refusal = "This broker expects another cluster: correct the name, or cluster.expect in its configuration."
	ErrAdminOnly   refusal = "Syncmode full closes all listeners but those with admin_only: use one of these."
	ErrInvitation  refusal = "Invalid invitation"
	ErrUnconfirmed refusal = "The outcome is not known: it may have been carried out."
	ErrNoOther     refusal = "No other node of the cluster responds and accepts clients: undrain or start one first."
	ErrNothingKept refusal = "Nothing is kept of the access control that this broker had before it joined the cluster."
	ErrNoDrain     refusal = "The nodes of a cluster of syncmode dynsec have sessions of their own, which cannot be moved: the node cannot be drained."

	errNoLeaderBefore refusal = "The cluster has no leader." // the text of earlier releases
)

// The texts about arguments.
const (
	errClusterName refusal = "Invalid/missing clustername"
	errNodes       refusal = "Invalid/missing nodes"
	errSameNode    refusal = "Invalid nodes: nodeid or address used twice"
	errMyNode      refusal = "Invalid/missing mynode"
	errSyncMode    refusal = "Invalid syncmode"
	errNodeID      refusal = "Invalid/missing nodeid"
	errAddress     refusal = "Invalid/missing address"
	errPort        refusal = "Invalid/missing port"
)

// MaxNodes is the maximum size of a cluster.
const MaxNodes = 7

// HANode is a node of a cluster: its number, from 1, and the address of its cluster
// port. Mine marks the node that a command is sent to.
type HANode struct {
	NodeID  int    `json:"nodeid"`
	Address string `json:"address"`
	Port    int    `json:"port"`
	Mine    bool   `json:"mynode,omitempty"`
}

// HASpec is a cluster to create or join, with one to [MaxNodes] nodes, one of which is
// Mine. SyncMode is full, dynsec or hp, or empty if it was not given. Invitation is for
// a node that joins; nil if there is none.
type HASpec struct {
	ClusterName string
	SyncMode    string
	Nodes       []HANode
	Invitation  *Invitation
}

// HACreated is the data of createCluster: what the other nodes need to join. Info is a
// sentence for the user, or empty.
type HACreated struct {
	Invitations []Invitation `json:"invitations,omitempty"`
	Info        string       `json:"info,omitempty"`
}

// HAAdded is the data of addNode: what the node needs to join, if anything.
type HAAdded struct {
	Invitation *Invitation `json:"invitation,omitempty"`
}

// HACluster is the data of getCluster. Leader is the number of the leader, 0 if it is
// unknown.
type HACluster struct {
	ClusterName string   `json:"clustername"`
	UUID        string   `json:"uuid"`
	Version     int      `json:"version"`
	SyncMode    string   `json:"syncmode"`
	Nodes       []HANode `json:"nodes"`
	Leader      int      `json:"leader,omitempty"`
}

// haLeader is the data of isLeader.
type haLeader struct {
	IsLeader bool `json:"isLeader"`
}

// ClusterNode is a broker that can be a node of a cluster. If one of the errors above
// applies, its errors wrap it; a [*broker.Error] of kind NotFound, Unavailable or
// Unconfirmed canonical for ErrNoNode, ErrNoLeader or ErrUnconfirmed.
type ClusterNode interface {
	CreateCluster(ctx context.Context, s HASpec) (HACreated, error)
	JoinCluster(ctx context.Context, s HASpec) error
	AddNode(ctx context.Context, clustername string, n HANode) (HAAdded, error)
	RemoveNode(ctx context.Context, clustername string, n HANode) error
	LeaveCluster(ctx context.Context, clustername string, n HANode) error
	DeleteCluster(ctx context.Context, clustername string) error
	SetLeader(ctx context.Context, clustername string, nodeid int) error
	// DrainNode has this node refuse clients and move its sessions to the other nodes from now on,
	// until UndrainNode. It does not wait until they have moved.
	DrainNode(ctx context.Context, clustername string) error
	UndrainNode(ctx context.Context, clustername string) error
	// UndoJoin restores what this broker, which has left the cluster, had before it joined it: its access control and, of
	// its messages, what the cluster had replaced. A broker that has not joined, or an hour ago, refuses (ErrNothingKept).
	UndoJoin(ctx context.Context, clustername string) error
	GetCluster(ctx context.Context) (HACluster, error)
	// GetRaftStatus returns state 0 if the broker is not in a cluster.
	GetRaftStatus(ctx context.Context) (broker.RaftStatus, error)
	IsLeader(ctx context.Context) (bool, error)
}

// HA executes a request on HATopic.
func HA(ctx context.Context, n ClusterNode, payload []byte) []byte {
	args := reread(payload)
	table := make([]command, len(haCommands))
	for i, c := range haCommands {
		table[i] = command{c.name, func(ctx context.Context, _ dynsec.Object) (any, error) {
			var m members
			if !c.bare {
				var err error
				if m, err = args.next(c.name); err != nil {
					return nil, err
				}
			}
			data, err := c.do(ctx, n, m)
			return data, haRefusal(err)
		}}
	}
	return serve(ctx, payload, table...)
}

// RunHA executes a command on a node of this process, with the result that [HA] and
// [ReadHA] would have.
func RunHA(ctx context.Context, n ClusterNode, c HACommand, into any) error {
	i := slices.IndexFunc(haCommands, func(known haCommand) bool { return known.name == c.name })
	if i < 0 {
		return Refusal(errUnknownCommand).ClassifyHA(c.name)
	}
	data, err := haCommands[i].do(ctx, n, c.args)
	if err != nil {
		return Refusal(text(haRefusal(err))).ClassifyHA(c.name)
	}
	storeHA(into, data)
	return nil
}

// haCommand is the implementation of a command of HATopic. A bare one has no arguments.
type haCommand struct {
	name string
	bare bool
	do   func(ctx context.Context, n ClusterNode, a haArguments) (any, error)
}

// haCommands are the commands of HATopic.
var haCommands = []haCommand{
	{opCreateCluster, false, func(ctx context.Context, n ClusterNode, a haArguments) (any, error) {
		s, err := haSpec(a, true)
		if err != nil {
			return nil, err
		}
		return n.CreateCluster(ctx, s)
	}},
	{opJoinCluster, false, func(ctx context.Context, n ClusterNode, a haArguments) (any, error) {
		s, err := haSpec(a, false)
		if err != nil {
			return nil, err
		}
		return done{}, n.JoinCluster(ctx, s)
	}},
	{opDeleteCluster, false, aboutCluster(ClusterNode.DeleteCluster)},
	{opDrainNode, false, aboutCluster(ClusterNode.DrainNode)},
	{opUndrainNode, false, aboutCluster(ClusterNode.UndrainNode)},
	{opUndoJoin, false, aboutCluster(ClusterNode.UndoJoin)},
	{opSetLeader, false, func(ctx context.Context, n ClusterNode, a haArguments) (any, error) {
		name, err := a.clusterName()
		if err != nil {
			return nil, err
		}
		id, err := a.nodeID()
		if err != nil {
			return nil, err
		}
		return done{}, n.SetLeader(ctx, name, id)
	}},
	{opAddNode, false, func(ctx context.Context, n ClusterNode, a haArguments) (any, error) {
		name, node, err := clusterNode(a)
		if err != nil {
			return nil, err
		}
		return n.AddNode(ctx, name, node)
	}},
	{opRemoveNode, false, aboutOne(ClusterNode.RemoveNode)},
	{opLeaveCluster, false, aboutOne(ClusterNode.LeaveCluster)},
	{opGetCluster, true, func(ctx context.Context, n ClusterNode, _ haArguments) (any, error) { return n.GetCluster(ctx) }},
	{opGetRaftStatus, true, func(ctx context.Context, n ClusterNode, _ haArguments) (any, error) { return n.GetRaftStatus(ctx) }},
	{opIsLeader, true, func(ctx context.Context, n ClusterNode, _ haArguments) (any, error) {
		leads, err := n.IsLeader(ctx)
		return haLeader{leads}, err
	}},
}

// aboutCluster returns the implementation of a command without other arguments.
func aboutCluster(do func(n ClusterNode, ctx context.Context, clustername string) error) func(context.Context, ClusterNode, haArguments) (any, error) {
	return func(ctx context.Context, n ClusterNode, a haArguments) (any, error) {
		name, err := a.clusterName()
		if err != nil {
			return nil, err
		}
		return done{}, do(n, ctx, name)
	}
}

// aboutOne returns the implementation of a command about one node.
func aboutOne(
	do func(n ClusterNode, ctx context.Context, clustername string, node HANode) error,
) func(context.Context, ClusterNode, haArguments) (any, error) {
	return func(ctx context.Context, n ClusterNode, a haArguments) (any, error) {
		name, node, err := clusterNode(a)
		if err != nil {
			return nil, err
		}
		return done{}, do(n, ctx, name, node)
	}
}

// haRefusal replaces errors by the usual texts, by which the receiver recognizes their
// kind.
func haRefusal(err error) error {
	if _, said := errors.AsType[refusal](err); said || err == nil {
		return err
	}
	for _, known := range haRefusals {
		if known.canonical && broker.KindOf(err) == known.kind {
			return known.text
		}
	}
	return err
}

// haRefusals are the kinds of the texts. Errors of a kind are sent as its canonical
// text.
var haRefusals = []struct {
	text      refusal
	kind      broker.Kind
	canonical bool
}{
	{ErrInCluster, broker.Conflict, false},
	{ErrNotLeader, broker.Conflict, false},
	{ErrNoCluster, broker.Conflict, false},
	{ErrClusterName, broker.Conflict, false},
	{ErrMember, broker.Exists, false},
	{ErrSyncMode, broker.Unsupported, false},
	{ErrExpected, broker.Conflict, false},
	{ErrAdminOnly, broker.Conflict, false},
	{ErrNoOther, broker.Conflict, false},
	{ErrNoDrain, broker.Unsupported, false},
	{ErrNothingKept, broker.Conflict, false},
	{ErrNoLeader, broker.Unavailable, true},
	{ErrNoNode, broker.NotFound, true},
	{ErrUnconfirmed, broker.Unconfirmed, true},
	{errInternal, broker.Internal, false},
}

// ClassifyHA returns the refusal of a command on HATopic as a [*broker.Error]. It wraps
// the text if that is one of this package's. An unknown text is a conflict: clusters
// refuse what their state forbids.
func (r Refusal) ClassifyHA(op string) error {
	if r == Refusal(errUnknownCommand) {
		return broker.NotSupported(op, broker.CapCluster)
	}
	for _, known := range haRefusals {
		if r == Refusal(errNoLeaderBefore) {
			r = Refusal(ErrNoLeader)
		}
		if strings.EqualFold(strings.TrimRight(string(r), ". "), strings.TrimRight(string(known.text), ".")) {
			e := &broker.Error{Kind: known.kind, Op: op, Msg: string(r), Err: known.text}
			if e.Kind == broker.Unsupported {
				e.Feature = broker.CapCluster
			}
			return e
		}
	}
	e := &broker.Error{Kind: broker.Conflict, Op: op, Msg: string(r)}
	if kind := broker.KindOf(r.Classify(op, broker.CapCluster)); kind != broker.Internal {
		e.Kind = kind
	}
	return e
}

package control

import (
	"math"
	"slices"
)

// HACommand is a command of [HATopic] to send to a broker.
type HACommand struct {
	name string
	args haArgs
}

// haArgs are the members of commands about clusters. Zero members are omitted.
type haArgs struct {
	Command         string      `json:"command"`
	ClusterName     string      `json:"clustername,omitempty"`
	SyncMode        string      `json:"syncmode,omitempty"`
	Nodes           []HANode    `json:"nodes,omitempty"`
	NodeID          int         `json:"nodeid,omitempty"`
	Address         string      `json:"address,omitempty"`
	Port            int         `json:"port,omitempty"`
	Invitation      *Invitation `json:"invitation,omitempty"`
	CorrelationData string      `json:"correlationData,omitempty"`
}

// Name returns the command's name.
func (c HACommand) Name() string { return c.name }

// Enters reports whether the broker enters a cluster with the command, before which it may have to store
// a copy of all of its data.
func (c HACommand) Enters() bool { return c.name == opCreateCluster || c.name == opJoinCluster }

// Encode returns the message with just this command, as [Command.Encode] does.
func (c HACommand) Encode(correlation string) []byte {
	c.args.Command, c.args.CorrelationData = c.name, correlation
	return encode(map[string][]haArgs{"commands": {c.args}})
}

// CreateCluster returns the command of this name. The response is an [HACreated].
func CreateCluster(s HASpec) HACommand {
	return HACommand{opCreateCluster, haArgs{ClusterName: s.ClusterName, SyncMode: s.SyncMode, Nodes: s.Nodes}}
}

// JoinCluster returns the command of this name.
func JoinCluster(s HASpec) HACommand {
	return HACommand{opJoinCluster, haArgs{ClusterName: s.ClusterName, SyncMode: s.SyncMode, Nodes: s.Nodes, Invitation: s.Invitation}}
}

// AddNode returns the command of this name. The response is an [HAAdded].
func AddNode(clustername string, n HANode) HACommand { return aboutNode(opAddNode, clustername, n) }

// RemoveNode returns the command of this name.
func RemoveNode(clustername string, n HANode) HACommand {
	return aboutNode(opRemoveNode, clustername, n)
}

// LeaveCluster returns the command of this name.
func LeaveCluster(clustername string, n HANode) HACommand {
	return aboutNode(opLeaveCluster, clustername, n)
}

// DeleteCluster returns the command of this name.
func DeleteCluster(clustername string) HACommand {
	return HACommand{opDeleteCluster, haArgs{ClusterName: clustername}}
}

// SetLeader returns the command of this name.
func SetLeader(clustername string, nodeid int) HACommand {
	return HACommand{opSetLeader, haArgs{ClusterName: clustername, NodeID: nodeid}}
}

// DrainNode returns the command of this name.
func DrainNode(clustername string) HACommand {
	return HACommand{opDrainNode, haArgs{ClusterName: clustername}}
}

// UndrainNode returns the command of this name.
func UndrainNode(clustername string) HACommand {
	return HACommand{opUndrainNode, haArgs{ClusterName: clustername}}
}

// UndoJoin returns the command of this name.
func UndoJoin(clustername string) HACommand {
	return HACommand{opUndoJoin, haArgs{ClusterName: clustername}}
}

// GetCluster returns the command of this name. The response is an [HACluster].
func GetCluster() HACommand { return HACommand{name: opGetCluster} }

// GetRaftStatus returns the command of this name. The response is an [HAStatus].
func GetRaftStatus() HACommand { return HACommand{name: opGetRaftStatus} }

func aboutNode(op, clustername string, n HANode) HACommand {
	return HACommand{op, haArgs{ClusterName: clustername, NodeID: n.NodeID, Address: n.Address, Port: n.Port}}
}

// The arguments of a command that is not encoded. An empty one is missing, as in Encode.

func (a haArgs) clusterName() (string, error) {
	if a.ClusterName == "" {
		return "", errClusterName
	}
	return a.ClusterName, nil
}

func (a haArgs) syncMode() (string, error) {
	if a.SyncMode != "" && !isSyncMode(a.SyncMode) {
		return "", errSyncMode
	}
	return a.SyncMode, nil
}

func (a haArgs) nodes() (nodes []HANode, err error) {
	if len(a.Nodes) == 0 || len(a.Nodes) > MaxNodes {
		return nil, errNodes
	}
	for _, n := range a.Nodes {
		if err := n.check(); err != nil {
			return nil, err
		}
		if slices.ContainsFunc(nodes, n.conflictsWith) {
			return nil, errSameNode
		}
		nodes = append(nodes, n)
	}
	return nodes, nil
}

func (a haArgs) invitation() (*Invitation, error) {
	switch i := a.Invitation; {
	case i == nil || i.document == nil:
		return nil, nil
	case i.NodeID < 1:
		return nil, ErrInvitation
	default:
		return i, nil
	}
}

func (a haArgs) node() (HANode, error) {
	n := HANode{NodeID: a.NodeID, Address: a.Address, Port: a.Port}
	return n, n.check()
}

func (a haArgs) nodeID() (int, error) {
	if a.NodeID < 1 || a.NodeID > math.MaxInt32 {
		return 0, errNodeID
	}
	return a.NodeID, nil
}

// check returns the error of a node that is not valid.
func (n HANode) check() error {
	switch {
	case n.NodeID < 1 || n.NodeID > math.MaxInt32:
		return errNodeID
	case n.Address == "":
		return errAddress
	case n.Port < 1 || n.Port > math.MaxUint16:
		return errPort
	}
	return nil
}

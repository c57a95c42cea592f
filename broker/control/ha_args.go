package control

import (
	"encoding/json"
	"slices"

	"signalbox/broker"
)

// haArguments are the arguments of a command about clusters. A method returns an error if
// its argument is not valid, or missing and required.
type haArguments interface {
	clusterName() (string, error)
	syncMode() (string, error)
	nodes() ([]HANode, error)
	invitation() (*Invitation, error)
	node() (HANode, error)
	nodeID() (int, error)
}

func (m members) clusterName() (string, error) {
	name, err := member[string](m, "clustername")
	if err != nil || name == nil || *name == "" {
		return "", errClusterName
	}
	return *name, nil
}

func (m members) nodeID() (int, error) {
	id, err := member[int32](m, "nodeid")
	if err != nil || id == nil || *id < 1 {
		return 0, errNodeID
	}
	return int(*id), nil
}

// clusterNode returns the node of a command, and its cluster's name.
func clusterNode(a haArguments) (clustername string, n HANode, err error) {
	if clustername, err = a.clusterName(); err != nil {
		return "", n, err
	}
	n, err = a.node()
	return clustername, n, err
}

func (m members) node() (n HANode, err error) {
	if n.NodeID, err = m.nodeID(); err != nil {
		return n, err
	}
	address, err := member[string](m, "address")
	if err != nil || address == nil || *address == "" {
		return n, errAddress
	}
	port, err := member[uint16](m, "port")
	if err != nil || port == nil || *port == 0 {
		return n, errPort
	}
	n.Address, n.Port = *address, int(*port)
	mine, err := member[bool](m, "mynode")
	n.Mine = mine != nil && *mine
	return n, err
}

// haSpec returns the cluster to create or join. In a cluster to create, the first node
// is the receiver's if none is marked.
func haSpec(a haArguments, made bool) (s HASpec, err error) {
	if s.ClusterName, err = a.clusterName(); err != nil {
		return s, err
	}
	if s.SyncMode, err = a.syncMode(); err != nil {
		return s, err
	}
	if s.Nodes, err = a.nodes(); err != nil {
		return s, err
	}
	isMine := func(n HANode) bool { return n.Mine }
	if made && !slices.ContainsFunc(s.Nodes, isMine) {
		s.Nodes[0].Mine = true
	}
	if len(slices.DeleteFunc(slices.Clone(s.Nodes), func(n HANode) bool { return !n.Mine })) != 1 {
		return s, errMyNode
	}
	s.Invitation, err = a.invitation()
	return s, err
}

func (m members) invitation() (*Invitation, error) {
	i, err := member[Invitation](m, "invitation")
	if err != nil {
		return nil, ErrInvitation
	}
	return i, nil
}

func (m members) syncMode() (string, error) {
	mode, err := member[string](m, "syncmode")
	if err != nil || mode != nil && !isSyncMode(*mode) {
		return "", errSyncMode
	}
	if mode == nil {
		return "", nil
	}
	return *mode, nil
}

func isSyncMode(mode string) bool {
	return slices.Contains([]string{broker.SyncFull, broker.SyncDynsec, broker.SyncHP}, mode)
}

func (m members) nodes() ([]HANode, error) {
	list, err := member[[]json.RawMessage](m, "nodes")
	if err != nil || list == nil || len(*list) == 0 || len(*list) > MaxNodes {
		return nil, errNodes
	}
	nodes := make([]HANode, 0, len(*list))
	for _, raw := range *list {
		m, err := membersOf(raw)
		if err != nil {
			return nil, errNodes
		}
		n, err := m.node()
		if err != nil {
			return nil, err
		}
		if slices.ContainsFunc(nodes, n.conflictsWith) {
			return nil, errSameNode
		}
		nodes = append(nodes, n)
	}
	return nodes, nil
}

// conflictsWith reports whether two nodes cannot be in one cluster.
func (n HANode) conflictsWith(other HANode) bool {
	return n.NodeID == other.NodeID || n.Address == other.Address && n.Port == other.Port
}

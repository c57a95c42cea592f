package cluster

import (
	"fmt"
	"log/slog"
	"net"
	"slices"
	"strconv"
)

// maxMembers is how many nodes a cluster may have. Each further one makes changes slower; seven
// tolerate the loss of three.
const maxMembers = 7

// Member is a node of a cluster. Generation is the index of the command that made it a member, 1
// for the first members: a node that is added again is another one for raft.
type Member struct {
	NodeID     NodeID `json:"nodeid"`
	Address    string `json:"address"`
	Port       int    `json:"port"`
	Generation uint64 `json:"generation,omitzero"`
}

// hostPort returns the address of the member's cluster port.
func (m Member) hostPort() string { return net.JoinHostPort(m.Address, strconv.Itoa(m.Port)) }

// ref returns the member's identity for raft.
func (m Member) ref() memberRef { return memberRef{m.NodeID, m.Generation} }

// Spec describes a cluster to be created or joined. Self is this node.
type Spec struct {
	Name     string
	SyncMode string
	Members  []Member
	Self     NodeID
	Shared   bool // of a cluster that is created: it also replicates the Shared
}

// Check returns an ErrInvalid that describes what is wrong.
func (s Spec) Check() error {
	switch {
	case s.Name == "":
		return invalid("the cluster needs a name")
	case s.SyncMode == "":
		return invalid("the cluster needs a syncmode")
	case len(s.Members) == 0 || len(s.Members) > maxMembers:
		return invalid("a cluster has 1 to %d nodes, not %d", maxMembers, len(s.Members))
	}
	for i, m := range s.Members {
		if err := m.check(s.Members[:i]); err != nil {
			return err
		}
	}
	if !slices.ContainsFunc(s.Members, func(m Member) bool { return m.NodeID == s.Self }) {
		return invalid("this broker, node %d, is not among the nodes", s.Self)
	}
	return nil
}

// check returns what is wrong with a member among others.
func (m Member) check(others []Member) error {
	switch {
	case m.NodeID < 1:
		return invalid("node id %d is below 1", m.NodeID)
	case m.Address == "" || m.Port < 1 || m.Port > 65535:
		return invalid("node %d needs an address and a port from 1 to 65535", m.NodeID)
	}
	for _, o := range others {
		if o.NodeID == m.NodeID {
			return invalid("node id %d is there twice", m.NodeID)
		}
		if o.hostPort() == m.hostPort() {
			return invalid("nodes %d and %d have the same address %s", o.NodeID, m.NodeID, m.hostPort())
		}
	}
	return nil
}

// Warning returns what an operator should know about a cluster of so many nodes, or "".
func (s Spec) Warning() string { return warning(len(s.Members)) }

func warning(members int) string {
	switch {
	case members == 1:
		return "the cluster has one node: nothing is kept anywhere else"
	case members == 2:
		return "the cluster has two nodes: it can change nothing while one of them is away; with three it can"
	}
	return ""
}

// Invitation is what a node needs to join. It has a private key, so it must be sent on an
// encrypted connection, and not be stored.
type Invitation struct {
	UUID       string   `json:"uuid"` // of the cluster
	NodeID     NodeID   `json:"nodeid"`
	Generation uint64   `json:"generation"`
	CACert     string   `json:"ca_cert,omitempty"` // PEM, as the two below; of a cluster that an earlier release created
	Cert       string   `json:"cert"`
	Key        string   `json:"key"`
	Nodes      []Member `json:"nodes"` // the members when it was made

	Keys map[string]pin `json:"keys,omitempty"` // of these members; nil in a cluster that an earlier release created

	Shared bool  `json:"shared,omitempty"` // the cluster has a Shared
	Schema int64 `json:"schema,omitempty"` // of its content; 0 if the inviter did not set it
}

// String leaves out the key.
func (i Invitation) String() string {
	return fmt.Sprintf("invitation of node %d to %s", i.NodeID, i.UUID)
}

// GoString leaves out the key.
func (i Invitation) GoString() string { return i.String() }

// LogValue leaves out the key.
func (i Invitation) LogValue() slog.Value { return slog.StringValue(i.String()) }

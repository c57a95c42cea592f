package cluster

import (
	"context"
	"fmt"
	"net"
	"slices"
	"strings"
)

// Membership identifies a node of a cluster from the time when it was added until it leaves, as in
// "01234567-89ab-7def-8123-456789abcdef/2.118": the UUID of the cluster, the number of the node, and
// its generation. Another node that gets the same number later has another one, and so has a node that
// joins again.
type Membership string

// membershipOf returns the Membership of a node.
func membershipOf(uuid string, r memberRef) Membership { return Membership(uuid + "/" + r.String()) }

// read returns the parts. It returns false if it is not a Membership.
func (m Membership) read() (uuid string, r memberRef, ok bool) {
	uuid, name, _ := strings.Cut(string(m), "/")
	r, ok = parseMemberRef(name)
	return uuid, r, ok && uuid != ""
}

// NodeID returns the number of the node, 0 if m is not a Membership.
func (m Membership) NodeID() NodeID {
	_, r, _ := m.read()
	return r.id
}

// Membership returns that of this node, ErrNotClustered at rest, and ErrNoLeader until it was admitted.
func (n *Node) Membership() (Membership, error) {
	s, err := n.running()
	if err != nil {
		return "", err
	}
	if self := s.credentials.self; s.fsm.state.Load().has(self) {
		return membershipOf(s.credentials.uuid, self), nil
	}
	return "", fmt.Errorf("%w: the node waits to be admitted", ErrNoLeader)
}

// Includes reports whether a Membership is that of a present member of this node's cluster, which may be the node itself.
func (n *Node) Includes(m Membership) bool {
	s, err := n.running()
	if err != nil {
		return false
	}
	uuid, r, ok := m.read()
	return ok && uuid == s.credentials.uuid && s.fsm.state.Load().has(r)
}

// DialMQTT is Dial for a connection for MQTT, which the MQTT of the other node gets. The node's present
// address is used. ErrUnknownNode means that this Membership has ended, or is not one of this cluster.
// A node accepts 32 of these connections from each other node, and none if it has no MQTT.
func (n *Node) DialMQTT(ctx context.Context, to Membership) (conn net.Conn, address string, err error) {
	s, err := n.running()
	if err != nil {
		return nil, "", err
	}
	uuid, r, ok := to.read()
	others := s.others()
	i := slices.IndexFunc(others, func(m Member) bool { return m.ref() == r })
	if !ok || uuid != s.credentials.uuid || i < 0 {
		return nil, "", fmt.Errorf("node %d: %w", r.id, ErrUnknownNode)
	}
	conn, err = n.open(ctx, s, others[i], protocolMQTT)
	return conn, others[i].hostPort(), err
}

package embedded

import (
	"context"
	"errors"
	"fmt"
	"net"

	"signalbox/broker"
	"signalbox/broker/embedded/cluster"
)

// OtherLeader returns the number of the node that leads this broker's cluster, 0 if none or this one does, or the broker
// is in none.
func (b *Broker) OtherLeader() int {
	if b.cluster == nil || b.cluster.node.IsLeader() {
		return 0
	}
	id, _ := b.cluster.node.Leader()
	return int(id)
}

// DialPlatform opens a connection over which requests are forwarded to the platform of another node: its AcceptHTTP gets
// it. Its errors are a [*broker.Error] of kind Unavailable.
func (b *Broker) DialPlatform(ctx context.Context, nodeID int) (net.Conn, error) {
	err := cluster.ErrNotClustered
	if b.cluster != nil {
		var conn net.Conn
		if conn, err = b.cluster.node.DialHTTP(ctx, cluster.NodeID(nodeID)); err == nil {
			return conn, nil
		}
	}
	e := &broker.Error{Kind: broker.Unavailable, Op: "connect", Err: err,
		Msg: fmt.Sprintf("node %d cannot be reached at its cluster port: check that it runs, and the firewalls between them", nodeID)}
	if errors.Is(err, cluster.ErrNotClustered) || errors.Is(err, cluster.ErrUnknownNode) {
		e.Msg = fmt.Sprintf("node %d is not a node of this cluster any more", nodeID)
	}
	return nil, e
}

// acceptHTTP passes on a connection that another node has opened with DialPlatform.
func (m *member) acceptHTTP(from cluster.NodeID, conn net.Conn) {
	accept := m.broker.config.AcceptHTTP
	if accept == nil || !m.isPlatform(from) {
		conn.Close()
		return
	}
	accept(conn)
}

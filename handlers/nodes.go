package handlers

import (
	"context"
	"net"

	"signalbox/broker"
	"signalbox/db"
)

// Nodes are the other nodes of a cluster that shares the data of the platform.
type Nodes interface {
	// Hosting returns the number of the node that takes the messages for the streams and bridges that nodes
	// share, 0 if that is this node. It reports false if no node is known to do so.
	Hosting() (node int, known bool)
	// Dial opens a connection over which requests are forwarded to a node. Its errors are a
	// [*broker.Error] of kind Unavailable.
	Dial(ctx context.Context, node int) (net.Conn, error)
}

// HostedAt returns the number of the node that serves requests about the streams and bridges of a broker, 0 if that
// is this one. It reports false if none does at present. Each node has those of its own embedded broker, unless those of all nodes
// are the same.
func (a *API) HostedAt(ctx context.Context, projectID, brokerID string) (node int, known bool) {
	if a.Nodes == nil {
		return 0, true
	}
	if node, known = a.Nodes.Hosting(); node == 0 && known {
		return 0, true
	}
	row, err := a.DB.GetBroker(ctx, projectID, brokerID)
	if err != nil || isOnPremise(row) && !a.sharesFeatures(row) {
		return 0, true // the operation returns the error
	}
	return node, known
}

// sharesFeatures reports whether the embedded broker of a record has the same streams and bridges as the one in this process, as
// nodes of one cluster.
func (a *API) sharesFeatures(row db.Broker) bool {
	membership := overCluster(row)
	if d, ok := ofEmbedded(row); ok && row.ID == a.Embedded() {
		membership = d.Membership
	}
	b, ok := a.inProcess.(interface{ SharesFeatures(membership string) bool })
	return ok && membership != "" && b.SharesFeatures(membership)
}

// featured returns the broker that has the streams and bridges of the one in the path. It may not be connected yet.
func (a *API) featured(p *BrokerPath) (broker.Broker, error) {
	if a.sharesFeatures(p.row) {
		return a.inProcess, nil
	}
	return a.live(p)
}

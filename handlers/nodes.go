package handlers

import (
	"context"
	"net"
)

// Nodes are the other nodes of a cluster that shares the data of the platform.
type Nodes interface {
	// Hosting returns the number of the node that takes the messages for the streams and bridges of connected
	// brokers, 0 if that is this node, or none is known.
	Hosting() int
	// Dial opens a connection over which requests are forwarded to a node. Its errors are a
	// [*broker.Error] of kind Unavailable.
	Dial(ctx context.Context, node int) (net.Conn, error)
}

// HostedAt returns the number of the node to which requests about the streams and bridges of a broker are to be
// forwarded, 0 if this node serves them. Each node has those of its own embedded broker.
func (a *API) HostedAt(ctx context.Context, projectID, brokerID string) int {
	node := a.Nodes.Hosting()
	if node == 0 {
		return 0
	}
	row, err := a.DB.GetBroker(ctx, projectID, brokerID)
	if err != nil || isOnPremise(row) {
		return 0 // the operation returns the error
	}
	return node
}

package clusters

import (
	"context"

	"signalbox/broker"
	"signalbox/broker/control"
)

const (
	opDrain   = "drainClusterNode"
	opUndrain = "undrainClusterNode"
)

// DrainNode has a node refuse clients and move its sessions to the other nodes, until UndrainNode. It
// does not wait until they have moved.
func (c *Clusters) DrainNode(ctx context.Context, projectID, clusterID string, nodeID int) error {
	return c.changeNode(ctx, opDrain, control.DrainNode, projectID, clusterID, nodeID)
}

// UndrainNode has a node accept clients again.
func (c *Clusters) UndrainNode(ctx context.Context, projectID, clusterID string, nodeID int) error {
	return c.changeNode(ctx, opUndrain, control.UndrainNode, projectID, clusterID, nodeID)
}

// changeNode sends a command about a node to that node.
func (c *Clusters) changeNode(ctx context.Context, op string, command func(clustername string) control.HACommand, projectID, clusterID string, nodeID int) error {
	ctx = broker.WithFreshAttempt(ctx)
	cl, n, release, err := c.openNode(ctx, op, projectID, clusterID, nodeID)
	if err != nil {
		return err
	}
	defer release()
	if err := c.change(ctx, cl, n, command(cl.Name), nil); err != nil {
		return err
	}
	c.log.Info("node of a cluster changed", "operation", op, "cluster", cl.ID, "name", cl.Name, "node", n.NodeID)
	return nil
}

package clusters

import (
	"context"

	"signalbox/broker"
	"signalbox/broker/control"
)

const opSetLeader = "setClusterLeader"

// SetLeader transfers the leadership to another node, which must be a voter with every committed
// entry.
func (c *Clusters) SetLeader(ctx context.Context, projectID, clusterID string, nodeID int) error {
	ctx = broker.WithFreshAttempt(ctx)
	cl, release, err := c.openLocked(ctx, opSetLeader, projectID, clusterID)
	if err != nil {
		return err
	}
	defer release()
	n, err := cl.find(broker.ClusterNodeRef{NodeID: nodeID})
	if err != nil {
		return err
	}
	views := c.observe(ctx, cl, cl.Nodes)
	leader := leaderOf(cl.Name, views)
	switch {
	case leader == nil:
		return noLeader(opSetLeader, cl, views)
	case leader.NodeID == nodeID:
		return nil
	}
	if err := c.change(ctx, cl, leader.Node, control.SetLeader(cl.Name, nodeID), nil); err != nil {
		return err
	}
	c.log.Info("cluster has another leader", "cluster", cl.ID, "name", cl.Name, "node", n.NodeID)
	return nil
}

package clusters

import (
	"context"

	"signalbox/broker"
	"signalbox/broker/control"
)

const opSetLeader = "setClusterLeader"

// SetLeader has another node of a cluster lead. It must have a vote, and everything
// that the leader has committed.
func (c *Clusters) SetLeader(ctx context.Context, projectID, clusterID string, nodeID int) error {
	ctx = broker.WithFreshAttempt(ctx)
	cl, release, err := c.open(ctx, opSetLeader, projectID, clusterID)
	if err != nil {
		return err
	}
	defer release()
	n, err := cl.find(broker.ClusterNodeRef{NodeID: nodeID})
	if err != nil {
		return err
	}
	seen := c.look(ctx, cl, cl.Nodes)
	leader := leaderOf(cl.Name, seen)
	switch {
	case leader == nil:
		return noLeader(opSetLeader, cl, seen)
	case leader.NodeID == nodeID:
		return nil
	}
	if err := c.tell(ctx, cl, leader.Node, control.SetLeader(cl.Name, nodeID), nil); err != nil {
		return err
	}
	c.log.Info("cluster has another leader", "cluster", cl.ID, "name", cl.Name, "node", n.NodeID)
	return nil
}

package clusters

import (
	"context"

	"signalbox/broker"
	"signalbox/broker/control"
)

const (
	opLeave  = "leaveCluster"
	opDelete = "deleteCluster"
)

// LeaveCluster removes a node through its leader or, without one, through the node itself. The
// node may be unreachable.
func (c *Clusters) LeaveCluster(ctx context.Context, projectID, clusterID string, ref broker.ClusterNodeRef) error {
	ctx = broker.WithFreshAttempt(ctx)
	cl, release, err := c.openLocked(ctx, opLeave, projectID, clusterID)
	if err != nil {
		return err
	}
	defer release()
	n, err := cl.find(ref)
	if err != nil {
		return err
	}
	if len(cl.Nodes) == 1 {
		return &broker.Error{Kind: broker.Conflict, Op: opLeave, Msg: "it is the last node: delete the cluster instead"}
	}
	if err := c.remove(ctx, cl, n, c.observe(ctx, cl, cl.Nodes)); err != nil {
		return err
	}
	if err := c.rows.RemoveNode(ctx, cl.ID, n.NodeID); err != nil {
		return err
	}
	c.rows.Release(ctx, n)
	c.log.Info("node left a cluster", "cluster", cl.ID, "name", cl.Name, "node", n.NodeID)
	return nil
}

// find returns the node with the number, the broker or both.
func (cl Cluster) find(ref broker.ClusterNodeRef) (Node, error) {
	for _, n := range cl.Nodes {
		if (ref.NodeID == 0 || ref.NodeID == n.NodeID) && (ref.BrokerID == "" || ref.BrokerID == n.BrokerID) {
			return n, nil
		}
	}
	return Node{}, &broker.Error{Kind: broker.NotFound, Op: opLeave, Msg: "the cluster has no such node"}
}

// DeleteCluster dissolves a cluster: each node becomes a single broker again, with its data. With
// purge the cluster is deleted from the list even if that fails, and its nodes stay as they are.
// A clustername that is given must match.
func (c *Clusters) DeleteCluster(ctx context.Context, projectID, clusterID, clustername string, purge bool) error {
	ctx = broker.WithFreshAttempt(ctx)
	cl, release, err := c.openLocked(ctx, opDelete, projectID, clusterID)
	if err != nil {
		return err
	}
	defer release()
	if clustername != "" && clustername != cl.Name {
		return &broker.Error{Kind: broker.Conflict, Op: opDelete, Msg: "the cluster has another name than clustername"}
	}
	return c.delete(ctx, cl, purge)
}

// DeleteClusters deletes all clusters of a project.
func (c *Clusters) DeleteClusters(ctx context.Context, projectID string, purge bool) ([]broker.ClusterResult, error) {
	stored, err := c.rows.Clusters(ctx, projectID)
	if err != nil {
		return nil, err
	}
	results := make([]broker.ClusterResult, len(stored))
	each(stored, func(i int, cl Cluster) {
		results[i] = broker.ClusterResult{ClusterID: cl.ID, ClusterName: cl.Name,
			Err: c.DeleteCluster(ctx, projectID, cl.ID, "", purge)}
	})
	return results, nil
}

func (c *Clusters) delete(ctx context.Context, cl Cluster, purge bool) error {
	err := c.dissolve(ctx, cl)
	if err != nil && !purge {
		return err
	}
	if err != nil {
		c.log.Warn("cluster forgotten that could not be dissolved", "cluster", cl.ID, "name", cl.Name, "error", err)
	}
	if err := c.rows.Delete(ctx, cl.ProjectID, cl.ID); err != nil {
		return err
	}
	c.releaseAll(ctx, cl.Nodes)
	c.log.Info("cluster deleted", "cluster", cl.ID, "name", cl.Name)
	return nil
}

// dissolve has the leader dissolve the cluster. Nodes that cannot be reached learn of it when
// they are connected again.
func (c *Clusters) dissolve(ctx context.Context, cl Cluster) error {
	views := c.observe(ctx, cl, cl.Nodes)
	if len(unreachable(views)) == 0 && len(members(cl.Name, views)) == 0 {
		return nil
	}
	leader := leaderOf(cl.Name, views)
	if leader == nil {
		return noLeader(opDelete, cl, views)
	}
	err := c.change(ctx, cl, leader.Node, control.DeleteCluster(cl.Name), nil)
	if err != nil && !(broker.KindOf(err) == broker.Unconfirmed && c.isDissolved(ctx, cl, members(cl.Name, views))) {
		return err
	}
	if err := c.awaitDeparture(ctx, cl, members(cl.Name, views)); err != nil {
		c.log.Warn("a node may not know yet that its cluster was dissolved", "cluster", cl.ID, "error", err)
	}
	return nil
}

// isDissolved reports whether the former members, as far as they can be asked, are not in the cluster any
// more. The response of a leader that is reached over the cluster's own port may be lost, since the port
// closes with the cluster.
func (c *Clusters) isDissolved(ctx context.Context, cl Cluster, former []Node) bool {
	return c.poll(ctx, c.timing.departure, func() bool {
		views := c.observe(ctx, cl, former)
		return len(unreachable(views)) < len(views) && len(members(cl.Name, views)) == 0
	})
}

package handlers

import (
	"context"
	"strconv"

	"signalbox/broker"
)

// ClusterNodePath names a node of a cluster of a project.
type ClusterNodePath struct {
	ClusterPath
	NodeID string `path:"nodeId" doc:"Number of the node."`
}

// number returns the number of the node.
func (p *ClusterNodePath) number(op string) (int, error) {
	n, err := strconv.ParseInt(p.NodeID, 10, 32)
	if err != nil || n < 1 {
		return 0, &broker.Error{Kind: broker.NotFound, Op: op, Msg: "the cluster has no such node"}
	}
	return int(n), nil
}

// DrainClusterNodeRequest names a node.
type DrainClusterNodeRequest struct{ ClusterNodePath }

// DrainClusterNode has a node move its sessions to the other nodes and refuse clients.
func (a *API) DrainClusterNode(ctx context.Context, r *DrainClusterNodeRequest) error {
	n, err := r.number("drainClusterNode")
	if err != nil {
		return err
	}
	return a.Clusters.DrainNode(ctx, r.ProjectID, r.ClusterID, n)
}

// UndrainClusterNodeRequest names a node.
type UndrainClusterNodeRequest struct{ ClusterNodePath }

// UndrainClusterNode has a node accept clients again.
func (a *API) UndrainClusterNode(ctx context.Context, r *UndrainClusterNodeRequest) error {
	n, err := r.number("undrainClusterNode")
	if err != nil {
		return err
	}
	return a.Clusters.UndrainNode(ctx, r.ProjectID, r.ClusterID, n)
}

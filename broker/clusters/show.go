package clusters

import (
	"context"
	"errors"
	"sync"

	"signalbox/broker"
)

// States of a cluster.
const (
	active   = "active"
	degraded = "degraded"
	inactive = "inactive"
)

// ListClusters returns the clusters of a project with their current state. A node that cannot be
// reached has an error.
func (c *Clusters) ListClusters(ctx context.Context, projectID string) ([]broker.Cluster, error) {
	stored, err := c.rows.Clusters(ctx, projectID)
	if err != nil {
		return nil, err
	}
	shown := make([]broker.Cluster, len(stored))
	each(stored, func(i int, cl Cluster) { shown[i] = describe(cl, c.observe(ctx, cl, cl.Nodes)) })
	return shown, nil
}

// GetCluster returns a cluster with its current state.
func (c *Clusters) GetCluster(ctx context.Context, projectID, clusterID string) (broker.Cluster, error) {
	cl, err := c.rows.Cluster(ctx, projectID, clusterID)
	if err != nil {
		return broker.Cluster{}, err
	}
	return describe(cl, c.observe(ctx, cl, cl.Nodes)), nil
}

// GetRaftStatus returns the state of each cluster's consensus according to its leader or, without
// one, the first node that can be reached.
func (c *Clusters) GetRaftStatus(ctx context.Context, projectID string) ([]broker.ClusterResult, error) {
	stored, err := c.rows.Clusters(ctx, projectID)
	if err != nil {
		return nil, err
	}
	results := make([]broker.ClusterResult, len(stored))
	each(stored, func(i int, cl Cluster) {
		results[i] = broker.ClusterResult{ClusterID: cl.ID, ClusterName: cl.Name}
		results[i].Data, results[i].Err = statusOf(cl, c.observe(ctx, cl, cl.Nodes))
	})
	return results, nil
}

// each calls do for each cluster concurrently. Commands to nodes are bounded by the slots.
func each(all []Cluster, do func(i int, cl Cluster)) {
	var wg sync.WaitGroup
	for i, cl := range all {
		wg.Go(func() { do(i, cl) })
	}
	wg.Wait()
}

func statusOf(cl Cluster, views []nodeView) (*broker.RaftStatus, error) {
	if leader := leaderOf(cl.Name, views); leader != nil {
		return &leader.status.RaftStatus, nil
	}
	for _, s := range views {
		if s.err == nil {
			if s.status.Nodes == nil {
				s.status.Nodes = []broker.RaftNode{}
			}
			return &s.status.RaftStatus, nil
		}
	}
	return nil, joinNodeErrors("getRaftStatus", broker.Unavailable, "", unreachable(views))
}

// describe returns the state of a cluster. It is inactive without a leader, active if no node has
// an error, and degraded otherwise.
func describe(cl Cluster, views []nodeView) broker.Cluster {
	p := broker.Cluster{ID: cl.ID, ClusterName: cl.Name, SyncMode: cl.SyncMode, State: active, Nodes: make([]broker.ClusterNode, len(views))}
	leader := leaderOf(cl.Name, views)
	leaderID := knownLeader(cl.Name, leader, views)
	for i, s := range views {
		p.Nodes[i] = broker.ClusterNode{BrokerID: s.BrokerID, NodeID: s.NodeID, Name: s.Name, Address: s.Address, Port: s.Port, URL: s.URL,
			Leader: s.NodeID == leaderID, LogIndex: max(s.status.LastStored, s.status.LastApplied), Drain: s.status.Drain, Backlog: s.status.Backlog, Error: nodeProblem(cl, s, leader)}
		if p.Nodes[i].Error != "" {
			p.State = degraded
		}
	}
	if leaderID == 0 {
		p.State = inactive
	}
	if leader != nil {
		p.Warning = leader.status.Warning
	}
	return p
}

// knownLeader returns the number of the leader or, if that could not be asked, of the leader that
// another node follows; 0 if there is none.
func knownLeader(name string, leader *nodeView, views []nodeView) int {
	if leader != nil {
		return leader.NodeID
	}
	for _, s := range views {
		if s.isIn(name) && s.status.State == stateFollower && s.cluster.Leader > 0 {
			return s.cluster.Leader
		}
	}
	return 0
}

// nodeProblem returns the problem of a node, "" for none.
func nodeProblem(cl Cluster, s nodeView, leader *nodeView) string {
	switch {
	case s.err != nil:
		return errorText(s.err) + cl.hint(s.Node, s.err)
	case !s.member:
		return "the broker is not part of a cluster"
	case !s.isIn(cl.Name), s.isForeign(leader):
		return "the broker is part of another cluster"
	case leader != nil && !leader.lists(s.NodeID):
		return "the leader does not count the broker as a node"
	case leader != nil && leader.reportsUnreachable(s.NodeID):
		_, why := leader.isSpare(s.NodeID)
		return "the broker waits to join, and the leader cannot reach it at " + s.hostPort() + ": " + why
	case s.status.ErrorMessage != "":
		return s.status.ErrorMessage
	case s.status.State == stateUnavailable:
		return "the broker takes no part in the cluster's consensus yet"
	case s.status.State == stateCandidate:
		return "the broker has no contact with a leader"
	case s.status.State == stateLeader && leader != nil && s.NodeID != leader.NodeID:
		return "the broker does not know the new leader yet"
	}
	return ""
}

// errorText returns the text of a node's error without the name of the node.
func errorText(err error) string {
	e, ok := errors.AsType[*broker.Error](err)
	if !ok {
		return "the broker could not be asked"
	}
	if inner, ok := errors.AsType[*broker.Error](e.Err); ok {
		return inner.Msg
	}
	return e.Msg
}

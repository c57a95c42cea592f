package clusters

import (
	"context"
	"errors"
	"sync"

	"signalbox/broker"
)

// The states of a cluster.
const (
	active   = "active"
	degraded = "degraded"
	inactive = "inactive"
)

// ListClusters shows the clusters of a project as they are now. A node that
// cannot be reached has an error.
func (c *Clusters) ListClusters(ctx context.Context, projectID string) ([]broker.Cluster, error) {
	stored, err := c.rows.Clusters(ctx, projectID)
	if err != nil {
		return nil, err
	}
	shown := make([]broker.Cluster, len(stored))
	each(stored, func(i int, cl Cluster) { shown[i] = picture(cl, c.look(ctx, cl, cl.Nodes)) })
	return shown, nil
}

// GetCluster shows a cluster as ListClusters does.
func (c *Clusters) GetCluster(ctx context.Context, projectID, clusterID string) (broker.Cluster, error) {
	cl, err := c.rows.Cluster(ctx, projectID, clusterID)
	if err != nil {
		return broker.Cluster{}, err
	}
	return picture(cl, c.look(ctx, cl, cl.Nodes)), nil
}

// GetRaftStatus gives the state of each cluster's consensus as its leader sees it
// or, where there is none, the first node that can be reached.
func (c *Clusters) GetRaftStatus(ctx context.Context, projectID string) ([]broker.ClusterResult, error) {
	stored, err := c.rows.Clusters(ctx, projectID)
	if err != nil {
		return nil, err
	}
	results := make([]broker.ClusterResult, len(stored))
	each(stored, func(i int, cl Cluster) {
		results[i] = broker.ClusterResult{ClusterID: cl.ID, ClusterName: cl.Name}
		results[i].Data, results[i].Err = statusOf(cl, c.look(ctx, cl, cl.Nodes))
	})
	return results, nil
}

// each does something with each cluster at the same time. What they ask of their
// nodes is bounded by the slots.
func each(all []Cluster, do func(i int, cl Cluster)) {
	var wg sync.WaitGroup
	for i, cl := range all {
		wg.Go(func() { do(i, cl) })
	}
	wg.Wait()
}

func statusOf(cl Cluster, seen []sight) (*broker.RaftStatus, error) {
	if leader := leaderOf(cl.Name, seen); leader != nil {
		return &leader.status.RaftStatus, nil
	}
	for _, s := range seen {
		if s.err == nil {
			if s.status.Nodes == nil {
				s.status.Nodes = []broker.RaftNode{}
			}
			return &s.status.RaftStatus, nil
		}
	}
	return nil, because("getRaftStatus", broker.Unavailable, "", missed(seen))
}

// picture shows a cluster by what its nodes say. It is inactive without a leader,
// active if all nodes are well, and degraded otherwise.
func picture(cl Cluster, seen []sight) broker.Cluster {
	p := broker.Cluster{ID: cl.ID, ClusterName: cl.Name, SyncMode: cl.SyncMode, State: active, Nodes: make([]broker.ClusterNode, len(seen))}
	leader := leaderOf(cl.Name, seen)
	leaderID := toldLeader(cl.Name, leader, seen)
	for i, s := range seen {
		p.Nodes[i] = broker.ClusterNode{BrokerID: s.BrokerID, NodeID: s.NodeID, Name: s.Name, Address: s.Address, Port: s.Port, URL: s.URL,
			Leader: s.NodeID == leaderID, LogIndex: max(s.status.LastStored, s.status.LastApplied), Error: ailment(cl, s, leader)}
		if p.Nodes[i].Error != "" {
			p.State = degraded
		}
	}
	if leaderID == 0 {
		p.State = inactive
	}
	return p
}

// toldLeader gives the number of the leader, or of the one that a node follows
// where that could not be asked itself; 0 where there is none.
func toldLeader(name string, leader *sight, seen []sight) int {
	if leader != nil {
		return leader.NodeID
	}
	for _, s := range seen {
		if s.in(name) && s.status.State == stateFollower && s.cluster.Leader > 0 {
			return s.cluster.Leader
		}
	}
	return 0
}

// ailment says what is wrong with a node, "" for nothing.
func ailment(cl Cluster, s sight, leader *sight) string {
	switch {
	case s.err != nil:
		return cause(s.err) + cl.hint(s.Node, s.err)
	case !s.member:
		return "the broker is not part of a cluster"
	case !s.in(cl.Name), s.foreign(leader):
		return "the broker is part of another cluster"
	case leader != nil && !leader.counts(s.NodeID):
		return "the leader does not count the broker as a node"
	case s.status.ErrorMessage != "":
		return s.status.ErrorMessage
	case s.status.State == stateUnavailable:
		return "the broker takes no part in the cluster's consensus yet"
	case s.status.State == stateCandidate:
		return "the broker has no contact with a leader"
	case s.status.State == stateLeader && leader != nil && s.NodeID != leader.NodeID:
		return "the broker has not heard of the new leader"
	}
	return ""
}

// cause gives the sentence of a node's error without the name of the node.
func cause(err error) string {
	e, ok := errors.AsType[*broker.Error](err)
	if !ok {
		return "the broker could not be asked"
	}
	if inner, ok := errors.AsType[*broker.Error](e.Err); ok {
		return inner.Msg
	}
	return e.Msg
}

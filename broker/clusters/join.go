package clusters

import (
	"context"
	"errors"

	"signalbox/broker"
	"signalbox/broker/control"
)

const opJoin = "joinCluster"

// JoinCluster adds a node while the cluster serves. A node that lost its data
// joins again the same way, under its number and address; one whose joining broke
// off goes on where that was.
func (c *Clusters) JoinCluster(ctx context.Context, projectID, clusterID string, ref broker.ClusterNodeRef) error {
	ctx = broker.WithFreshAttempt(ctx)
	cl, release, err := c.open(ctx, opJoin, projectID, clusterID)
	if err != nil {
		return err
	}
	defer release()
	n, err := c.rows.Resolve(ctx, projectID, ref)
	if err != nil {
		return err
	}
	known := cl.known(&n)
	if err := c.join(ctx, cl, n, known); err != nil {
		if !known {
			c.rows.Release(ctx, n)
		}
		return err
	}
	c.log.Info("node joined a cluster", "cluster", cl.ID, "name", cl.Name, "node", n.NodeID)
	return nil
}

func (c *Clusters) join(ctx context.Context, cl Cluster, n Node, known bool) error {
	if known {
		return c.enter(ctx, cl, n, true)
	}
	release, err := c.claim(opJoin, keys(n)...)
	if err != nil {
		return err
	}
	defer release()
	if err := c.mayJoin(ctx, cl, n); err != nil {
		return err
	}
	if err := c.enter(ctx, cl.with(n), n, false); err != nil {
		return err
	}
	if err := c.rows.AddNode(ctx, cl.ID, n); err != nil {
		return leaving(err, c.retract(ctx, cl, n))
	}
	return nil
}

// known tells whether the node is one of the cluster's, and takes over how that
// is reached.
func (cl Cluster) known(n *Node) bool {
	for _, o := range cl.Nodes {
		same := o.BrokerID == n.BrokerID && o.Own == n.Own && o.URL == n.URL
		if same && o.NodeID == n.NodeID && o.Address == n.Address && o.Port == n.Port {
			*n = o
			return true
		}
	}
	return false
}

// mayJoin sees that the node does not clash with another one.
func (c *Clusters) mayJoin(ctx context.Context, cl Cluster, n Node) error {
	if bad := cl.clashes(n); len(bad) > 0 {
		return &broker.Error{Kind: broker.Invalid, Op: opJoin, Fields: bad, Msg: "the cluster has a node like this"}
	}
	if len(cl.Nodes) >= control.MaxNodes {
		return &broker.Error{Kind: broker.Conflict, Op: opJoin, Msg: "the cluster has as many nodes as a cluster can have"}
	}
	stored, err := c.rows.Clusters(ctx, cl.ProjectID)
	if err != nil {
		return err
	}
	if other := owner(stored, n); other != nil {
		return n.failed(&broker.Error{Kind: broker.Conflict, Op: opJoin, Msg: "the broker is a node of the cluster " + other.Name})
	}
	return nil
}

// clashes names what of a node another one of the cluster has.
func (cl Cluster) clashes(n Node) (bad []broker.Field) {
	add := func(clash bool, path string, other Node) {
		if clash {
			bad = append(bad, broker.Field{Path: path, Msg: "is that of " + other.String()})
		}
	}
	for _, o := range cl.Nodes {
		add(o.NodeID == n.NodeID, "nodeid", o)
		add(o.Address == n.Address && o.Port == n.Port, "address", o)
		add(o.Name == n.Name && n.Name != "", "name", o)
		add(!o.Own && !n.Own && o.BrokerID == n.BrokerID, "broker_id", o)
	}
	return bad
}

// enter makes the node, which is among the cluster's, a node of it. A known node
// is left with the leader if it cannot join now.
func (c *Clusters) enter(ctx context.Context, cl Cluster, n Node, known bool) error {
	seen := c.look(ctx, cl, cl.Nodes)
	self, others := apart(seen, n.NodeID)
	if known {
		others = seen
	}
	leader := leaderOf(cl.Name, others)
	if err := self.mayJoin(cl.Name, leader); err != nil {
		return err
	}
	switch {
	case leader == nil:
		return noLeader(opJoin, cl, others)
	case self.waits(): // with an invitation that is void, or to a cluster that cannot be reached
		if err := errors.Join(c.leaveAlone(ctx, cl, []Node{n})...); err != nil {
			return err
		}
		self.member = false
	case self.member && leader.counts(n.NodeID):
		return nil
	}
	invitation, err := c.invite(ctx, cl, leader.Node, n)
	if err != nil || self.member {
		return err
	}
	err = c.accept(ctx, cl, n, invitation)
	if err != nil && !known {
		return leaving(err, c.retract(ctx, cl, n))
	}
	return err
}

// invite has the leader add a node, and returns the invitation with which it joins.
func (c *Clusters) invite(ctx context.Context, cl Cluster, leader, n Node) (*control.Invitation, error) {
	var added control.HAAdded
	err := c.tell(ctx, cl, leader, control.AddNode(cl.Name, n.ha()), &added)
	return added.Invitation, err
}

// accept has a node join with an invitation.
func (c *Clusters) accept(ctx context.Context, cl Cluster, n Node, invitation *control.Invitation) error {
	spec := cl.spec(n)
	spec.Invitation = invitation
	if err := c.tell(ctx, cl, n, control.JoinCluster(spec), nil); err != nil {
		return err
	}
	c.rally(ctx, cl, []Node{n})
	return nil
}

// mayJoin returns why a node cannot join a cluster: it does not answer, or is a node of
// another one.
func (s sight) mayJoin(name string, leader *sight) error {
	if s.err == nil && s.member && !s.waits() && (!s.in(name) || s.foreign(leader)) {
		return s.taken(opJoin)
	}
	return s.err
}

// apart gives the sight of one node, which is there, and those of the others.
func apart(seen []sight, nodeID int) (self sight, others []sight) {
	for _, s := range seen {
		if s.NodeID == nodeID {
			self = s
		} else {
			others = append(others, s)
		}
	}
	return self, others
}

// retract has the leader remove a node that has not become one.
func (c *Clusters) retract(ctx context.Context, cl Cluster, n Node) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), c.timing.undo)
	defer cancel()
	return c.remove(ctx, cl, n, c.look(ctx, cl, cl.Nodes))
}

// remove has the leader remove a node, and the node itself leave where there is
// no leader to do that, or it is not heard of. What the leader refuses is not
// done.
func (c *Clusters) remove(ctx context.Context, cl Cluster, n Node, seen []sight) error {
	err := noLeader(opLeave, cl, seen)
	if leader := leaderOf(cl.Name, seen); leader != nil {
		err = c.tell(ctx, cl, leader.Node, control.RemoveNode(cl.Name, n.ha()), nil)
		if errors.Is(err, control.ErrNoNode) {
			err = nil
		}
	}
	if err != nil {
		if !absent(err) {
			return err
		}
		if alone := c.tell(ctx, cl, n, control.LeaveCluster(cl.Name, n.ha()), nil); alone != nil && !errors.Is(alone, control.ErrNoCluster) {
			return err
		}
		return nil
	}
	if err := c.free(ctx, cl, []Node{n}); err != nil {
		c.log.Warn("a removed node may not know of it yet", "cluster", cl.ID, "node", n.NodeID, "error", err)
	}
	return nil
}

// absent tells whether an error says that nobody who could decide was there.
func absent(err error) bool {
	switch broker.KindOf(err) {
	case broker.Unavailable, broker.Unconfirmed:
		return true
	}
	return errors.Is(err, control.ErrNotLeader)
}

package clusters

import (
	"context"
	"errors"

	"signalbox/broker"
	"signalbox/broker/control"
)

const opJoin = "joinCluster"

// JoinCluster adds a node while the cluster serves. A node that lost its data joins again in the
// same way, with its number and address; an incomplete joining is continued. After an error, the
// cluster has the nodes that it had before, and the node is alone. What cannot be undone, also
// because the service ends meanwhile, stays in the list, so that the node can be removed.
func (c *Clusters) JoinCluster(ctx context.Context, projectID, clusterID string, ref broker.ClusterNodeRef) error {
	ctx = broker.WithFreshAttempt(ctx)
	cl, release, err := c.openLocked(ctx, opJoin, projectID, clusterID)
	if err != nil {
		return err
	}
	defer release()
	n, err := c.rows.Resolve(ctx, projectID, ref)
	if err != nil {
		return err
	}
	if cl.hasNode(&n) {
		err = c.joinAgain(ctx, cl, n)
	} else {
		err = c.join(ctx, cl, n)
	}
	if err != nil {
		return err
	}
	c.log.Info("node joined a cluster", "cluster", cl.ID, "name", cl.Name, "node", n.NodeID)
	return nil
}

// join adds a node that is not in the list.
func (c *Clusters) join(ctx context.Context, cl Cluster, n Node) error {
	kept := false
	defer func() {
		if !kept {
			c.rows.Release(ctx, n)
		}
	}()
	release, err := c.lock(opJoin, keys(n)...)
	if err != nil {
		return err
	}
	defer release()
	if err := c.checkJoin(ctx, cl, n); err != nil {
		return err
	}
	if err := c.rows.AddNode(ctx, cl.ID, n); err != nil {
		return err
	}
	with := cl.with(n)
	invited, err := c.admit(ctx, with, n, false)
	if err == nil {
		kept = true
		return nil
	}
	c.log.Warn("node not added to a cluster", "cluster", cl.ID, "name", cl.Name, "node", n.NodeID, "error", err)
	var left, replaced error
	if invited {
		left, replaced = c.undoJoin(ctx, with, n)
	}
	if left == nil {
		left = c.rows.RemoveNode(context.WithoutCancel(ctx), cl.ID, n.NodeID)
	}
	kept = left != nil
	return withReplaced(withLeftover(err, left, "remove "+n.String()+" when the cluster can be reached"), replaced)
}

// joinAgain has a node of the list join again. If it cannot, it is alone, and the leader keeps it in
// its list.
func (c *Clusters) joinAgain(ctx context.Context, cl Cluster, n Node) error {
	_, err := c.admit(ctx, cl, n, true)
	if !errors.Is(err, errUnreached) {
		return err
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), c.timing.undo)
	defer cancel()
	left := errors.Join(c.leaveAlone(ctx, cl, []Node{n})...)
	var replaced error
	if left == nil {
		replaced = c.restoreNodes(ctx, cl, n)
	}
	return withReplaced(withLeftover(err, left, "try again when the node can be reached, or remove it"), replaced)
}

// hasNode reports whether the node is in the cluster, and takes over how that is reached.
func (cl Cluster) hasNode(n *Node) bool {
	for _, o := range cl.Nodes {
		same := o.BrokerID == n.BrokerID && o.Own == n.Own && o.URL == n.URL
		if same && o.NodeID == n.NodeID && o.Address == n.Address && o.Port == n.Port {
			*n = o
			return true
		}
	}
	return false
}

// checkJoin checks that the node does not conflict with another one.
func (c *Clusters) checkJoin(ctx context.Context, cl Cluster, n Node) error {
	if bad := cl.conflicts(n); len(bad) > 0 {
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
		return n.named(&broker.Error{Kind: broker.Conflict, Op: opJoin, Msg: "the broker is a node of the cluster " + other.Name})
	}
	return nil
}

// conflicts returns the fields in which a node conflicts with another one of the cluster.
func (cl Cluster) conflicts(n Node) (bad []broker.Field) {
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

// admit makes a node of cl a member. With an error it reports whether the leader may have invited
// the node.
func (c *Clusters) admit(ctx context.Context, cl Cluster, n Node, known bool) (invited bool, err error) {
	views := c.observe(ctx, cl, cl.Nodes)
	self, others := splitViews(views, n.NodeID)
	if known {
		others = views
	}
	leader := leaderOf(cl.Name, others)
	if err := self.mayJoin(cl.Name, leader); err != nil {
		return false, err
	}
	switch {
	case leader == nil:
		return false, noLeader(opJoin, cl, others)
	case self.isWaiting(): // with an invitation that is void, or to a cluster that cannot be reached
		if err := errors.Join(c.leaveAlone(ctx, cl, []Node{n})...); err != nil {
			return false, err
		}
		self.member = false
	case self.member && leader.lists(n.NodeID):
		return false, nil
	}
	invitation, err := c.invite(ctx, cl, leader.Node, n)
	if err != nil || self.member {
		return mayBeExecuted(err), err
	}
	return true, c.accept(ctx, cl, leader.Node, n, invitation)
}

// invite has the leader add a node, and returns the invitation with which it joins.
func (c *Clusters) invite(ctx context.Context, cl Cluster, leader, n Node) (*control.Invitation, error) {
	var added control.HAAdded
	err := c.change(ctx, cl, leader, control.AddNode(cl.Name, n.ha()), &added)
	return added.Invitation, err
}

// accept has a node join the cluster with its invitation, and waits until it has a vote.
func (c *Clusters) accept(ctx context.Context, cl Cluster, leader, n Node, invitation *control.Invitation) error {
	spec := cl.spec(n)
	spec.Invitation = invitation
	if err := c.change(ctx, cl, n, control.JoinCluster(spec), nil); err != nil {
		return err
	}
	if err := c.awaitContact(ctx, opJoin, cl, []Node{n}, leader); err != nil {
		return err
	}
	c.awaitVotes(ctx, cl, []Node{n})
	return nil
}

// mayJoin returns why a node cannot join a cluster: it does not respond, or is a node of another
// cluster.
func (s nodeView) mayJoin(name string, leader *nodeView) error {
	if s.err == nil && s.member && !s.isWaiting() && (!s.isIn(name) || s.isForeign(leader)) {
		return s.inClusterError(opJoin)
	}
	return s.err
}

// splitViews separates the view of one node, which must exist, from those of the others.
func splitViews(views []nodeView, nodeID int) (self nodeView, others []nodeView) {
	for _, s := range views {
		if s.NodeID == nodeID {
			self = s
		} else {
			others = append(others, s)
		}
	}
	return self, others
}

// undoJoin has the leader remove a node that has not joined, or has joined and cannot be reached, and has it restore its
// access control of before. The first error is of the removal.
func (c *Clusters) undoJoin(ctx context.Context, cl Cluster, n Node) (left, replaced error) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), c.timing.undo)
	defer cancel()
	if err := c.remove(ctx, cl, n, c.observe(ctx, cl, cl.Nodes)); err != nil {
		return err, nil
	}
	return nil, c.restoreNodes(ctx, cl, n)
}

// remove has the leader remove a node, or the node itself leave if there is no leader or it does
// not respond. An error of the leader itself is returned.
func (c *Clusters) remove(ctx context.Context, cl Cluster, n Node, views []nodeView) error {
	err := noLeader(opLeave, cl, views)
	if leader := leaderOf(cl.Name, views); leader != nil {
		err = c.change(ctx, cl, leader.Node, control.RemoveNode(cl.Name, n.ha()), nil)
		if errors.Is(err, control.ErrNoNode) {
			err = nil
		}
	}
	if err != nil {
		if !couldNotDecide(err) {
			return err
		}
		if alone := c.change(ctx, cl, n, control.LeaveCluster(cl.Name, n.ha()), nil); alone != nil && !errors.Is(alone, control.ErrNoCluster) {
			return err
		}
		return nil
	}
	if err := c.awaitDeparture(ctx, cl, []Node{n}); err != nil {
		c.log.Warn("a removed node may not know of it yet", "cluster", cl.ID, "node", n.NodeID, "error", err)
	}
	return nil
}

// couldNotDecide reports whether an error means that no node could decide.
func couldNotDecide(err error) bool {
	switch broker.KindOf(err) {
	case broker.Unavailable, broker.Unconfirmed:
		return true
	}
	return errors.Is(err, control.ErrNotLeader)
}

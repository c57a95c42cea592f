package clusters

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"signalbox/broker"
	"signalbox/broker/control"
)

// States of a node's consensus.
const (
	stateUnavailable = iota
	stateFollower
	stateCandidate
	stateLeader
)

// Roles of a node that does not have a vote yet.
const (
	roleStandby = 0 // the leader replicates to it
	roleSpare   = 2 // it has not responded to the leader yet
)

// ask sends a command to a node. Its error names the node.
func (c *Clusters) ask(ctx context.Context, cl Cluster, n Node, cmd control.HACommand, data any) error {
	select {
	case c.slots <- struct{}{}:
		defer func() { <-c.slots }()
	case <-ctx.Done():
		return n.named(&broker.Error{Kind: broker.Unavailable, Op: cmd.Name(), Msg: "it could not be asked in time", Err: ctx.Err()})
	}
	asker, err := c.rows.Reach(ctx, cl.ProjectID, n)
	if err == nil {
		err = asker.AskHA(ctx, cmd, data)
	}
	return cl.withHint(n, n.named(err))
}

// withHint adds a hint to an error of a node.
func (cl Cluster) withHint(n Node, err error) error {
	if e, ok := errors.AsType[*broker.Error](err); ok {
		e.Msg += cl.hint(n, err)
	}
	return err
}

// hint returns a hint for a node that cannot be reached, "" for none.
func (cl Cluster) hint(n Node, err error) string {
	if cl.ID == "" || n.Inside || n.NodeID == cl.joining || cl.SyncMode != broker.SyncFull || err == nil || broker.KindOf(err) != broker.Unavailable {
		return ""
	}
	return " (unless it leads, a node of a full cluster is reached by its listeners with admin_only alone: the connection must lead to one)"
}

// change sends a command that changes something.
func (c *Clusters) change(ctx context.Context, cl Cluster, n Node, cmd control.HACommand, data any) error {
	limit := c.timing.change
	if cmd.Enters() {
		limit = c.timing.enter
	}
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	return c.ask(ctx, cl, n, cmd, data)
}

// named adds the node's name to an error; nil stays nil.
func (n Node) named(err error) error {
	e, ok := errors.AsType[*broker.Error](err)
	if !ok {
		return err
	}
	return &broker.Error{Kind: e.Kind, Op: e.Op, Feature: e.Feature, Msg: n.String() + ": " + e.Msg, Err: err}
}

// nodeView is a node's own view of its cluster, or the error of asking it.
type nodeView struct {
	Node
	status  control.HAStatus
	cluster control.HACluster
	member  bool // it is in a cluster
	err     error
}

// isIn reports whether the node was reached and is in the cluster with that name, or in one whose
// name it does not know yet.
func (s nodeView) isIn(name string) bool {
	return s.err == nil && s.member && (s.cluster.ClusterName == "" || s.cluster.ClusterName == name)
}

// isWaiting reports whether the node was invited and waits for admission: it does not know the name
// of its cluster yet.
func (s nodeView) isWaiting() bool {
	return s.err == nil && s.member && s.cluster.ClusterName == "" && s.cluster.UUID != ""
}

// isForeign reports whether the node and the leader are in different clusters, even with the same
// name.
func (s nodeView) isForeign(leader *nodeView) bool {
	return leader != nil && s.cluster.UUID != "" && leader.cluster.UUID != "" && s.cluster.UUID != leader.cluster.UUID
}

// lists reports whether the node, as leader, lists another one as a node, which may not be in
// the consensus yet. A leader without lists counts as listing all.
func (s nodeView) lists(nodeID int) bool {
	return len(s.status.Nodes)+len(s.cluster.Nodes) == 0 ||
		slices.ContainsFunc(s.cluster.Nodes, func(n control.HANode) bool { return n.NodeID == nodeID }) ||
		slices.ContainsFunc(s.status.Nodes, func(n broker.RaftNode) bool { return n.ID == nodeID })
}

// isStandby reports whether the node, as leader, replicates to another one without a vote. A
// leader without a list counts as having voters only.
func (s nodeView) isStandby(nodeID int) bool {
	return len(s.status.Nodes) > 0 &&
		!slices.ContainsFunc(s.status.Nodes, func(n broker.RaftNode) bool { return n.ID == nodeID && n.Role != roleStandby })
}

// isSpare reports whether another node has not responded to this one, the leader, since it was
// invited, and why the leader cannot reach it, "" if that is not known.
func (s nodeView) isSpare(nodeID int) (spare bool, why string) {
	i := slices.IndexFunc(s.status.Nodes, func(n broker.RaftNode) bool { return n.ID == nodeID && n.Role == roleSpare })
	if i < 0 {
		return false, ""
	}
	return true, s.status.Nodes[i].Error
}

// reportsUnreachable reports whether the node, as leader, cannot reach another one that was invited.
func (s nodeView) reportsUnreachable(nodeID int) bool {
	_, why := s.isSpare(nodeID)
	return why != ""
}

// observe asks all nodes concurrently, and takes no longer than its timeout. The result is in the
// order of the nodes.
func (c *Clusters) observe(ctx context.Context, cl Cluster, nodes []Node) []nodeView {
	ctx, cancel := context.WithTimeout(ctx, c.timing.observe)
	defer cancel()
	views := make([]nodeView, len(nodes))
	var wg sync.WaitGroup
	for i, n := range nodes {
		wg.Go(func() { views[i] = c.observeNode(ctx, cl, n) })
	}
	wg.Wait()
	return views
}

// observeNode asks one node. A response to getCluster shows whether the node is in a cluster;
// without that, so does the state of consensus, which may be empty within a cluster. A node that
// reports that its cluster has no leader is in one.
func (c *Clusters) observeNode(ctx context.Context, cl Cluster, n Node) nodeView {
	s := nodeView{Node: n}
	var wg sync.WaitGroup
	var statusErr, clusterErr error
	wg.Go(func() { statusErr = c.ask(ctx, cl, n, control.GetRaftStatus(), &s.status) })
	wg.Go(func() { clusterErr = c.ask(ctx, cl, n, control.GetCluster(), &s.cluster) })
	wg.Wait()
	s.member = clusterErr == nil && s.cluster.ClusterName != "" || statusErr == nil && s.status.State != stateUnavailable ||
		errors.Is(clusterErr, control.ErrNoLeader)
	switch {
	case statusErr != nil && !isInNone(statusErr):
		s.err = statusErr
	case clusterErr != nil && !isInNone(clusterErr) && !(statusErr == nil && broker.KindOf(clusterErr) == broker.Unsupported):
		s.err = clusterErr
	}
	return s
}

// poll calls condition until it returns true, for as long as most. A call that has started is not
// interrupted.
func (c *Clusters) poll(ctx context.Context, most time.Duration, condition func() bool) bool {
	over := time.NewTimer(most)
	defer over.Stop()
	pause := time.NewTicker(c.timing.poll)
	defer pause.Stop()
	for !condition() {
		select {
		case <-pause.C:
		case <-over.C:
			return false
		case <-ctx.Done():
			return false
		}
	}
	return true
}

// awaitVotes waits until new nodes have a vote, so that from then on another node may fail. It is
// not an error if they do not have one yet: the leader promotes them later.
func (c *Clusters) awaitVotes(ctx context.Context, cl Cluster, fresh []Node) {
	counted := c.poll(ctx, c.timing.votes, func() bool {
		leader := leaderOf(cl.Name, c.observe(ctx, cl, cl.Nodes))
		return leader != nil && !slices.ContainsFunc(fresh, func(n Node) bool { return leader.isStandby(n.NodeID) })
	})
	if !counted {
		c.log.Warn("new nodes have no vote in their cluster yet", "cluster", cl.ID, "name", cl.Name)
	}
}

// awaitContact waits until the leader has reached new nodes, which have accepted to join. The error
// is that of a node that the leader has tried to reach in vain, or one before it, and none has reached since. What a node does that
// was reached may take longer, and is not an error; nor is a leader that does not report errors.
func (c *Clusters) awaitContact(ctx context.Context, op string, cl Cluster, fresh []Node, others ...Node) error {
	failed := make([]error, len(fresh))
	c.poll(ctx, c.timing.contact, func() bool {
		leader := leaderOf(cl.Name, c.observe(ctx, cl, append(others, fresh...)))
		if leader == nil {
			return false
		}
		reached := true
		for i, n := range fresh {
			spare, why := leader.isSpare(n.NodeID)
			switch {
			case !spare:
				failed[i] = nil
			case why != "":
				failed[i] = n.unreached(op, leader.Node, why)
			}
			reached = reached && !spare
		}
		return reached
	})
	for _, err := range failed {
		if err != nil {
			return err
		}
	}
	return nil
}

// errUnreached is the cause of the error of a node that the leader cannot reach.
var errUnreached = errors.New("the leader cannot reach the node")

// unreached returns the error of a node that the leader cannot reach.
func (n Node) unreached(op string, leader Node, why string) error {
	return &broker.Error{Kind: broker.Unavailable, Op: op, Err: errUnreached, Msg: fmt.Sprintf(
		"%v cannot be reached by %v, the leader, at %s (%s), so this was undone: correct its address and port, which are those of cluster.listen of the node, "+
			"or let the other nodes connect to it, and try again", n, leader, n.hostPort(), why)}
}

// isInNone reports whether an error is the response of a node that supports clusters and is in
// none.
func isInNone(err error) bool {
	switch broker.KindOf(err) {
	case broker.Conflict, broker.NotFound:
		return true
	}
	return errors.Is(err, control.ErrNoLeader)
}

// leaderOf returns the leader: of several the one with the latest term, because the others have
// not learned of it yet.
func leaderOf(name string, views []nodeView) *nodeView {
	var leader *nodeView
	for i := range views {
		s := &views[i]
		if s.isIn(name) && s.status.State == stateLeader && (leader == nil || s.status.CurrentTerm > leader.status.CurrentTerm) {
			leader = s
		}
	}
	return leader
}

// members returns the nodes that were reached and are in the cluster.
func members(name string, views []nodeView) (nodes []Node) {
	for _, s := range views {
		if s.isIn(name) {
			nodes = append(nodes, s.Node)
		}
	}
	return nodes
}

// unreachable returns the views of nodes that could not be asked.
func unreachable(views []nodeView) []nodeView {
	return slices.DeleteFunc(slices.Clone(views), func(s nodeView) bool { return s.err == nil })
}

// noLeader returns why a change is impossible: no node can be reached, the leader cannot be
// reached, or there is no leader.
func noLeader(op string, cl Cluster, views []nodeView) error {
	unreached := unreachable(views)
	if len(unreached) == len(views) {
		return joinNodeErrors(op, broker.Unavailable, "", unreached)
	}
	leads := knownLeader(cl.Name, nil, views)
	if i := slices.IndexFunc(unreached, func(s nodeView) bool { return s.NodeID == leads }); i >= 0 {
		e := joinNodeErrors(op, broker.Unavailable, unreached[i].String()+" leads the cluster and cannot be asked", unreached[i:i+1])
		e.Kind, e.Feature = broker.Unavailable, ""
		return e
	}
	e := joinNodeErrors(op, broker.Unavailable, "the cluster has no leader: a majority of its nodes must run and reach each other", unreached)
	e.Kind, e.Feature, e.Err = broker.Unavailable, "", errors.Join(control.ErrNoLeader, e.Err)
	return e
}

// joinNodeErrors returns the errors of nodes as one error. Its kind is theirs if all have the same,
// otherwise the given one.
func joinNodeErrors(op string, otherwise broker.Kind, text string, unreached []nodeView) *broker.Error {
	e := &broker.Error{Kind: otherwise, Op: op}
	var parts []string
	if text != "" {
		parts = append(parts, text)
	}
	for i, s := range unreached {
		cause, _ := errors.AsType[*broker.Error](s.err)
		if cause == nil {
			cause = &broker.Error{Kind: broker.Internal, Msg: s.Node.String() + ": it could not be asked"}
		}
		parts = append(parts, cause.Msg)
		if i == 0 {
			e.Kind, e.Feature = cause.Kind, cause.Feature
		} else if cause.Kind != e.Kind {
			e.Kind, e.Feature = otherwise, ""
		}
		e.Err = errors.Join(e.Err, s.err)
	}
	e.Msg = strings.Join(parts, "; ")
	return e
}

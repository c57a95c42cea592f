package clusters

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync"

	"signalbox/broker"
	"signalbox/broker/control"
)

// The states of a node's consensus.
const (
	stateUnavailable = iota
	stateFollower
	stateCandidate
	stateLeader
)

// roleStandby is the role of a node without a vote that is to get one.
const roleStandby = 0

// ask sends a command to a node. Its error names the node.
func (c *Clusters) ask(ctx context.Context, cl Cluster, n Node, cmd control.HACommand, data any) error {
	select {
	case c.slots <- struct{}{}:
		defer func() { <-c.slots }()
	case <-ctx.Done():
		return n.failed(&broker.Error{Kind: broker.Unavailable, Op: cmd.Name(), Msg: "it could not be asked in time", Err: ctx.Err()})
	}
	asker, err := c.rows.Reach(ctx, cl.ProjectID, n)
	if err == nil {
		err = asker.AskHA(ctx, cmd, data)
	}
	return cl.explained(n, n.failed(err))
}

// explained adds to an error of a node why that may be out of reach.
func (cl Cluster) explained(n Node, err error) error {
	if e, ok := errors.AsType[*broker.Error](err); ok {
		e.Msg += cl.hint(n, err)
	}
	return err
}

// hint is what an operator may not think of, about a node of the cluster that
// cannot be reached; "" for nothing.
func (cl Cluster) hint(n Node, err error) string {
	if cl.ID == "" || n.NodeID == cl.joining || cl.SyncMode != broker.SyncFull || err == nil || broker.KindOf(err) != broker.Unavailable {
		return ""
	}
	return " (unless it leads, a node of a full cluster is reached by its listeners with admin_only alone: the connection must lead to one)"
}

// tell sends a command that changes something.
func (c *Clusters) tell(ctx context.Context, cl Cluster, n Node, cmd control.HACommand, data any) error {
	ctx, cancel := context.WithTimeout(ctx, c.timing.change)
	defer cancel()
	return c.ask(ctx, cl, n, cmd, data)
}

// failed says of an error at which node it came about; nil stays nil.
func (n Node) failed(err error) error {
	e, ok := errors.AsType[*broker.Error](err)
	if !ok {
		return err
	}
	return &broker.Error{Kind: e.Kind, Op: e.Op, Feature: e.Feature, Msg: n.String() + ": " + e.Msg, Err: err}
}

// sight is how a node sees itself, or why it could not be asked.
type sight struct {
	Node
	status  control.HAStatus
	cluster control.HACluster
	member  bool // of a cluster
	err     error
}

// in tells whether the node was reached and is in the cluster of that name, or
// in one that has no name that it could tell.
func (s sight) in(name string) bool {
	return s.err == nil && s.member && (s.cluster.ClusterName == "" || s.cluster.ClusterName == name)
}

// waits reports whether the node was invited and waits to be let in: it does not
// know the name of its cluster yet.
func (s sight) waits() bool {
	return s.err == nil && s.member && s.cluster.ClusterName == "" && s.cluster.UUID != ""
}

// foreign tells whether the node is in another cluster than the leader, whatever
// their names.
func (s sight) foreign(leader *sight) bool {
	return leader != nil && s.cluster.UUID != "" && leader.cluster.UUID != "" && s.cluster.UUID != leader.cluster.UUID
}

// counts tells whether the node, as leader, counts another one as a node, which
// may have yet to be taken into the consensus. One that lists none does not say.
func (s sight) counts(nodeID int) bool {
	return len(s.status.Nodes)+len(s.cluster.Nodes) == 0 ||
		slices.ContainsFunc(s.cluster.Nodes, func(n control.HANode) bool { return n.NodeID == nodeID }) ||
		slices.ContainsFunc(s.status.Nodes, func(n broker.RaftNode) bool { return n.ID == nodeID })
}

// standsBy tells whether the node, as leader, has another one receive everything
// without a vote. One that lists none has all vote.
func (s sight) standsBy(nodeID int) bool {
	return len(s.status.Nodes) > 0 &&
		!slices.ContainsFunc(s.status.Nodes, func(n broker.RaftNode) bool { return n.ID == nodeID && n.Role != roleStandby })
}

// look asks all nodes how they are, at the same time, and takes as long as one
// look may. The sights are in the order of the nodes.
func (c *Clusters) look(ctx context.Context, cl Cluster, nodes []Node) []sight {
	ctx, cancel := context.WithTimeout(ctx, c.timing.look)
	defer cancel()
	seen := make([]sight, len(nodes))
	var wg sync.WaitGroup
	for i, n := range nodes {
		wg.Go(func() { seen[i] = c.see(ctx, cl, n) })
	}
	wg.Wait()
	return seen
}

// see asks one node. Whether it is in a cluster tells getCluster where it is
// answered; the state of consensus may be nothing also within one. A node that says
// there of its cluster that it has no leader is in one.
func (c *Clusters) see(ctx context.Context, cl Cluster, n Node) sight {
	s := sight{Node: n}
	var wg sync.WaitGroup
	var statusErr, clusterErr error
	wg.Go(func() { statusErr = c.ask(ctx, cl, n, control.GetRaftStatus(), &s.status) })
	wg.Go(func() { clusterErr = c.ask(ctx, cl, n, control.GetCluster(), &s.cluster) })
	wg.Wait()
	s.member = clusterErr == nil && s.cluster.ClusterName != "" || statusErr == nil && s.status.State != stateUnavailable ||
		errors.Is(clusterErr, control.ErrNoLeader)
	switch {
	case statusErr != nil && !nothing(statusErr):
		s.err = statusErr
	case clusterErr != nil && !nothing(clusterErr) && !(statusErr == nil && broker.KindOf(clusterErr) == broker.Unsupported):
		s.err = clusterErr
	}
	return s
}

// nothing tells whether an error is the answer of a node that knows of clusters
// and has nothing to tell of one.
func nothing(err error) bool {
	switch broker.KindOf(err) {
	case broker.Conflict, broker.NotFound:
		return true
	}
	return errors.Is(err, control.ErrNoLeader)
}

// leaderOf finds the leader: of several that think so the one of the latest
// term, since the others have not heard of it yet.
func leaderOf(name string, seen []sight) *sight {
	var leader *sight
	for i := range seen {
		s := &seen[i]
		if s.in(name) && s.status.State == stateLeader && (leader == nil || s.status.CurrentTerm > leader.status.CurrentTerm) {
			leader = s
		}
	}
	return leader
}

// members gives the nodes that were reached and are in the cluster.
func members(name string, seen []sight) (nodes []Node) {
	for _, s := range seen {
		if s.in(name) {
			nodes = append(nodes, s.Node)
		}
	}
	return nodes
}

// missed gives the sights of nodes that could not be asked.
func missed(seen []sight) []sight {
	return slices.DeleteFunc(slices.Clone(seen), func(s sight) bool { return s.err == nil })
}

// noLeader says why a change cannot be made: no node can be reached, the one that
// leads cannot be, or none leads.
func noLeader(op string, cl Cluster, seen []sight) error {
	away := missed(seen)
	if len(away) == len(seen) {
		return because(op, broker.Unavailable, "", away)
	}
	leads := toldLeader(cl.Name, nil, seen)
	if i := slices.IndexFunc(away, func(s sight) bool { return s.NodeID == leads }); i >= 0 {
		e := because(op, broker.Unavailable, away[i].String()+" leads the cluster and cannot be asked", away[i:i+1])
		e.Kind, e.Feature = broker.Unavailable, ""
		return e
	}
	e := because(op, broker.Unavailable, "the cluster has no leader: a majority of its nodes must run and reach each other", away)
	e.Kind, e.Feature, e.Err = broker.Unavailable, "", errors.Join(control.ErrNoLeader, e.Err)
	return e
}

// because makes an error of what was found out about nodes. It is of their kind
// if they agree about that.
func because(op string, otherwise broker.Kind, sentence string, away []sight) *broker.Error {
	e := &broker.Error{Kind: otherwise, Op: op}
	var parts []string
	if sentence != "" {
		parts = append(parts, sentence)
	}
	for i, s := range away {
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

package clusters

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"

	"signalbox/broker"
	"signalbox/broker/control"
)

const opCreate = "createCluster"

// CreateCluster creates a cluster of brokers that are in none, or adopts an existing one that
// matches the description exactly. The access control of the first node replaces that of the
// others. If it fails, the error names the node at which it failed, and all changes are undone as
// far as the nodes can be reached; otherwise the cluster stays in the list, so that it can be
// deleted.
func (c *Clusters) CreateCluster(ctx context.Context, projectID string, spec broker.ClusterSpec) (broker.ClusterConnection, error) {
	cl := Cluster{ProjectID: projectID, Name: spec.ClusterName, SyncMode: spec.SyncMode}
	var err error
	if cl.Nodes, err = c.resolve(ctx, projectID, spec.Nodes); err != nil {
		return broker.ClusterConnection{}, err
	}
	ctx = broker.WithFreshAttempt(ctx)
	release, err := c.lock(opCreate, keys(cl.Nodes...)...)
	if err != nil {
		return broker.ClusterConnection{}, err
	}
	defer release()
	exists, err := c.create(ctx, &cl)
	if err != nil {
		return broker.ClusterConnection{}, err
	}
	c.log.Info("cluster created", "cluster", cl.ID, "name", cl.Name, "syncmode", cl.SyncMode, "nodes", len(cl.Nodes), "was_there", exists)
	made := connection(cl)
	if made.Warning = c.unreachableWarning(ctx, cl); exists {
		made.Warning = c.adoptedWarning(ctx, cl)
	}
	return made, nil
}

// adoptedWarning returns a warning about a cluster that was there, and about its nodes that cannot be
// reached.
func (c *Clusters) adoptedWarning(ctx context.Context, cl Cluster) string {
	const adopted = "the brokers were this cluster already, which the project knows from now on"
	unreached := unreachable(c.observe(ctx, cl, cl.Nodes))
	if len(unreached) == 0 {
		return adopted
	}
	return joinNodeErrors(opCreate, broker.Unavailable, adopted, unreached).Msg
}

// unreachableWarning returns a warning about nodes of a new cluster that can no longer be
// reached: in syncmode full all nodes but the leader close their listeners, except those with
// admin_only.
func (c *Clusters) unreachableWarning(ctx context.Context, cl Cluster) string {
	if cl.SyncMode != broker.SyncFull {
		return ""
	}
	unreached := unreachable(c.observe(ctx, cl, cl.Nodes))
	if len(unreached) == 0 {
		return ""
	}
	return joinNodeErrors(opCreate, broker.Unavailable, "the cluster serves, but not all of its nodes can be reached any more", unreached).Msg
}

// create checks and stores a cluster, and creates it unless it exists.
func (c *Clusters) create(ctx context.Context, cl *Cluster) (exists bool, err error) {
	kept := false
	defer func() {
		if err != nil && !kept {
			c.releaseAll(ctx, cl.Nodes)
		}
	}()
	if exists, err = c.checkCreate(ctx, *cl); err != nil {
		return false, err
	}
	if cl.ID, err = c.rows.Create(ctx, *cl); err != nil || exists {
		return exists, err
	}
	a := creation{Clusters: c, cl: *cl}
	if err = a.run(ctx); err == nil {
		return false, nil
	}
	c.log.Warn("cluster not created", "cluster", cl.ID, "name", cl.Name, "error", err)
	left := a.undo(ctx)
	kept = left != nil
	return false, withReplaced(withLeftover(err, left, "delete the cluster when its nodes can be reached"), a.replaced)
}

// resolve returns how the nodes are reached. Its error names each node that cannot be resolved.
func (c *Clusters) resolve(ctx context.Context, projectID string, refs []broker.ClusterNodeRef) ([]Node, error) {
	nodes := make([]Node, len(refs))
	bad := &broker.Error{Kind: broker.Invalid, Op: opCreate, Msg: "a node's broker cannot be found"}
	for i, ref := range refs {
		n, err := c.rows.Resolve(ctx, projectID, ref)
		if e, ok := errors.AsType[*broker.Error](err); ok && e.Kind == broker.Invalid {
			for _, f := range e.Fields {
				bad.Fields = append(bad.Fields, broker.Field{Path: fmt.Sprintf("nodes[%d].%s", i, f.Path), Msg: f.Msg})
			}
			continue
		}
		if err != nil {
			return nil, err
		}
		nodes[i] = n
	}
	if len(bad.Fields) > 0 {
		return nil, bad
	}
	return nodes, nil
}

// checkCreate checks that name and brokers are free, and that all nodes can be reached, before
// anything is changed. It reports whether the cluster exists already.
func (c *Clusters) checkCreate(ctx context.Context, cl Cluster) (exists bool, err error) {
	stored, err := c.rows.Clusters(ctx, cl.ProjectID)
	if err != nil {
		return false, err
	}
	for _, other := range stored {
		if other.Name == cl.Name {
			return false, &broker.Error{Kind: broker.Exists, Op: opCreate, Msg: "the project has a cluster of this name"}
		}
	}
	for _, n := range cl.Nodes {
		if other := owner(stored, n); other != nil {
			return false, n.named(&broker.Error{Kind: broker.Conflict, Op: opCreate, Msg: fmt.Sprintf("the broker is a node of the cluster %q", other.Name)})
		}
	}
	return c.checkFree(ctx, cl)
}

// checkFree checks that all nodes can be reached and are in no cluster. It reports whether they are
// this cluster already; then some may be away.
func (c *Clusters) checkFree(ctx context.Context, cl Cluster) (exists bool, err error) {
	views := c.observe(ctx, cl, cl.Nodes)
	if cl.matches(views) {
		return true, nil
	}
	if unreached := unreachable(views); len(unreached) > 0 {
		return false, joinNodeErrors(opCreate, broker.Unavailable, "", unreached)
	}
	for _, s := range views {
		if s.member {
			return false, s.inClusterError(opCreate)
		}
	}
	return false, nil
}

// matches reports whether the brokers are this cluster already, with a leader: with the same name
// and mode, and with these nodes, their numbers and addresses. A service that was lost may have
// created it, with one of the nodes: of those that cannot be reached, what the leader lists counts.
func (cl Cluster) matches(views []nodeView) bool {
	leader := leaderOf(cl.Name, views)
	if leader == nil || leader.cluster.SyncMode != cl.SyncMode || len(leader.cluster.Nodes) != len(cl.Nodes) || leader.cluster.UUID == "" {
		return false
	}
	for _, s := range views {
		if s.err != nil {
			if !slices.Contains(leader.cluster.Nodes, s.ha()) {
				return false
			}
			continue
		}
		mine := s.ha()
		mine.Mine = true
		if s.cluster.ClusterName != cl.Name || s.cluster.UUID != leader.cluster.UUID || !slices.Contains(s.cluster.Nodes, mine) {
			return false
		}
	}
	return true
}

// inClusterError returns the error for a node whose broker is in a cluster.
func (s nodeView) inClusterError(op string) error {
	msg := "the broker is already part of a cluster"
	if s.cluster.ClusterName != "" {
		msg += fmt.Sprintf(", %q", s.cluster.ClusterName)
	}
	return s.named(&broker.Error{Kind: broker.Conflict, Op: op, Msg: msg, Err: control.ErrInCluster})
}

// creation is the creation of a cluster, with the nodes that may have been changed.
type creation struct {
	*Clusters
	cl       Cluster
	changed  []Node // the first one first
	replaced error  // after undo: nodes whose access control could not be restored
}

// run has the first node create the cluster and the others join, and the leader add nodes that
// it does not list yet.
func (a *creation) run(ctx context.Context) error {
	first := a.cl.Nodes[0]
	var created control.HACreated
	err := a.change(ctx, a.cl, first, control.CreateCluster(a.cl.spec(first)), &created)
	if mayBeExecuted(err) {
		a.changed = append(a.changed, first)
	}
	if err != nil {
		return err
	}
	if err := a.joinAll(ctx, created.Invitations); err != nil {
		return err
	}
	if err := a.awaitLeader(ctx); err != nil {
		return err
	}
	if err := a.awaitContact(ctx, opCreate, a.cl, a.cl.Nodes[1:], first); err != nil {
		return err
	}
	a.awaitVotes(ctx, a.cl, a.cl.Nodes)
	return nil
}

// mayBeExecuted reports whether a command that returned an error may have been executed.
func mayBeExecuted(err error) bool {
	if err == nil {
		return true
	}
	switch broker.KindOf(err) {
	case broker.Unconfirmed, broker.Internal:
		return true
	}
	return false
}

// joinAll has all nodes but the first join, concurrently.
func (a *creation) joinAll(ctx context.Context, invitations []control.Invitation) error {
	others := a.cl.Nodes[1:]
	errs := make([]error, len(others))
	var wg sync.WaitGroup
	for i, n := range others {
		spec := a.cl.spec(n)
		if at := slices.IndexFunc(invitations, func(i control.Invitation) bool { return i.NodeID == n.NodeID }); at >= 0 {
			spec.Invitation = &invitations[at]
		}
		wg.Go(func() { errs[i] = a.change(ctx, a.cl, n, control.JoinCluster(spec), nil) })
	}
	wg.Wait()
	for i, err := range errs {
		if mayBeExecuted(err) {
			a.changed = append(a.changed, others[i])
		}
	}
	for _, err := range errs {
		if err != nil {
			return err
		}
	}
	return nil
}

// awaitLeader waits for a leader and has it add the nodes that it does not list. The leader may be
// another node than the first: other brokers elect one after all have joined.
func (a *creation) awaitLeader(ctx context.Context) error {
	var views []nodeView
	var err error
	agreed := a.poll(ctx, a.timing.leader, func() bool {
		views = a.observe(ctx, a.cl, a.cl.Nodes)
		leader := leaderOf(a.cl.Name, views)
		if leader == nil {
			return false
		}
		err = a.addMissing(ctx, leader)
		return err == nil || !isAboutLeadership(err)
	})
	switch {
	case err != nil:
		return err
	case !agreed:
		return noLeader(opCreate, a.cl, views)
	}
	return nil
}

// isAboutLeadership reports whether an error is about leadership, which may change.
func isAboutLeadership(err error) bool {
	return errors.Is(err, control.ErrNotLeader) || errors.Is(err, control.ErrNoLeader)
}

func (a *creation) addMissing(ctx context.Context, leader *nodeView) error {
	for _, n := range a.cl.Nodes {
		if leader.lists(n.NodeID) {
			continue
		}
		err := a.change(ctx, a.cl, leader.Node, control.AddNode(a.cl.Name, n.ha()), &control.HAAdded{})
		if err != nil && !errors.Is(err, control.ErrMember) {
			return n.named(fmt.Errorf("add the node: %w", err))
		}
	}
	return nil
}

// releaseAll closes the connections of nodes that were not used.
func (c *Clusters) releaseAll(ctx context.Context, nodes []Node) {
	for _, n := range nodes {
		c.rows.Release(ctx, n)
	}
}

// connection returns how a new cluster is reached, which is that of its first node.
func connection(cl Cluster) broker.ClusterConnection {
	n := cl.Nodes[0]
	r := broker.ClusterConnection{ID: cl.ID, URL: n.URL, Username: n.Target.Username, Password: n.Target.Password,
		ClientCert: n.Target.TLS.ClientCert, ClientKey: n.Target.TLS.ClientKey, CACert: n.Target.TLS.CACert}
	if n.Target.TLS.Verify {
		r.VerifyCACert = 1
	}
	return r
}

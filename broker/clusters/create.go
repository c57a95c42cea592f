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

// CreateCluster makes a cluster of brokers that are in none, or takes over one that
// they are already, just as described. The first node's access control becomes
// everybody's. If it fails, the error names the node that
// it failed at, and all that was begun is undone, as far as the nodes can be
// reached; where that is not all, the cluster stays in the list, to be deleted.
func (c *Clusters) CreateCluster(ctx context.Context, projectID string, spec broker.ClusterSpec) (broker.ClusterConnection, error) {
	cl := Cluster{ProjectID: projectID, Name: spec.ClusterName, SyncMode: spec.SyncMode}
	var err error
	if cl.Nodes, err = c.resolve(ctx, projectID, spec.Nodes); err != nil {
		return broker.ClusterConnection{}, err
	}
	ctx = broker.WithFreshAttempt(ctx)
	release, err := c.claim(opCreate, keys(cl.Nodes...)...)
	if err != nil {
		return broker.ClusterConnection{}, err
	}
	defer release()
	there, err := c.create(ctx, &cl)
	if err != nil {
		return broker.ClusterConnection{}, err
	}
	c.log.Info("cluster created", "cluster", cl.ID, "name", cl.Name, "syncmode", cl.SyncMode, "nodes", len(cl.Nodes), "was_there", there)
	made := connection(cl)
	if made.Warning = c.outOfReach(ctx, cl); there {
		made.Warning = "the brokers were this cluster already, which the project knows from now on"
	}
	return made, nil
}

// outOfReach tells which nodes of a new cluster cannot be reached any more: in
// syncmode full all but the leader close their listeners, but for those with
// admin_only.
func (c *Clusters) outOfReach(ctx context.Context, cl Cluster) string {
	if cl.SyncMode != broker.SyncFull {
		return ""
	}
	away := missed(c.look(ctx, cl, cl.Nodes))
	if len(away) == 0 {
		return ""
	}
	return because(opCreate, broker.Unavailable, "the cluster serves, but not all of its nodes can be reached any more", away).Msg
}

// create checks and stores a cluster, and makes it unless it is there.
func (c *Clusters) create(ctx context.Context, cl *Cluster) (there bool, err error) {
	kept := false
	defer func() {
		if err != nil && !kept {
			c.releaseAll(ctx, cl.Nodes)
		}
	}()
	if there, err = c.mayCreate(ctx, *cl); err != nil {
		return false, err
	}
	if cl.ID, err = c.rows.Create(ctx, *cl); err != nil || there {
		return there, err
	}
	a := attempt{Clusters: c, cl: *cl}
	if err = a.make(ctx); err == nil {
		return false, nil
	}
	c.log.Warn("cluster not created", "cluster", cl.ID, "name", cl.Name, "error", err)
	left := a.undo(ctx)
	kept = left != nil
	return false, leaving(err, left)
}

// resolve says how the nodes are reached. Its error names each that cannot be.
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

// keys are what a change of nodes takes: their brokers, by whatever they are
// reached.
func keys(nodes ...Node) []string {
	keys := make([]string, len(nodes))
	for i, n := range nodes {
		keys[i] = "broker/" + n.BrokerID
		if n.Own {
			keys[i] = "url/" + n.URL
		}
	}
	return keys
}

// mayCreate sees that name and brokers are free, and that all nodes can be
// reached: what can be known before anything is done need not be undone. It tells
// whether the cluster is there already.
func (c *Clusters) mayCreate(ctx context.Context, cl Cluster) (there bool, err error) {
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
			return false, n.failed(&broker.Error{Kind: broker.Conflict, Op: opCreate, Msg: fmt.Sprintf("the broker is a node of the cluster %q", other.Name)})
		}
	}
	return c.allFree(ctx, cl)
}

// owner finds the cluster that a broker connection is a node of.
func owner(stored []Cluster, n Node) *Cluster {
	for i, cl := range stored {
		if !n.Own && slices.ContainsFunc(cl.Nodes, func(o Node) bool { return !o.Own && o.BrokerID == n.BrokerID }) {
			return &stored[i]
		}
	}
	return nil
}

// allFree sees that all nodes can be reached and are in no cluster, or in this one.
func (c *Clusters) allFree(ctx context.Context, cl Cluster) (there bool, err error) {
	seen := c.look(ctx, cl, cl.Nodes)
	if away := missed(seen); len(away) > 0 {
		return false, because(opCreate, broker.Unavailable, "", away)
	}
	if cl.isThere(seen) {
		return true, nil
	}
	for _, s := range seen {
		if s.member {
			return false, s.taken(opCreate)
		}
	}
	return false, nil
}

// isThere tells whether the brokers are this cluster already, with a leader: of this
// name and mode, and with these nodes, each with its number and address. It may have
// been made by a service that is lost.
func (cl Cluster) isThere(seen []sight) bool {
	leader := leaderOf(cl.Name, seen)
	if leader == nil || leader.cluster.SyncMode != cl.SyncMode || len(leader.cluster.Nodes) != len(cl.Nodes) || leader.cluster.UUID == "" {
		return false
	}
	for _, s := range seen {
		mine := s.ha()
		mine.Mine = true
		if s.cluster.ClusterName != cl.Name || s.cluster.UUID != leader.cluster.UUID || !slices.Contains(s.cluster.Nodes, mine) {
			return false
		}
	}
	return true
}

// taken says that a node's broker is in a cluster.
func (s sight) taken(op string) error {
	msg := "the broker is already part of a cluster"
	if s.cluster.ClusterName != "" {
		msg += fmt.Sprintf(", %q", s.cluster.ClusterName)
	}
	return s.failed(&broker.Error{Kind: broker.Conflict, Op: op, Msg: msg, Err: control.ErrInCluster})
}

// attempt is a cluster on its way to be, and which nodes may know of it.
type attempt struct {
	*Clusters
	cl    Cluster
	began []Node
}

// make tells the first node to begin and the others to join, and has the leader
// add whom it does not count yet.
func (a *attempt) make(ctx context.Context) error {
	first := a.cl.Nodes[0]
	var created control.HACreated
	err := a.tell(ctx, a.cl, first, control.CreateCluster(a.cl.spec(first)), &created)
	if mayHave(err) {
		a.began = append(a.began, first)
	}
	if err != nil {
		return err
	}
	if err := a.joinAll(ctx, created.Invitations); err != nil {
		return err
	}
	if err := a.settle(ctx); err != nil {
		return err
	}
	a.rally(ctx, a.cl, a.cl.Nodes)
	return nil
}

// rally waits until new nodes count for the majority, so that from then on
// another one may fail. That they do not yet is no failure: the leader goes on.
func (c *Clusters) rally(ctx context.Context, cl Cluster, fresh []Node) {
	counted := c.until(ctx, c.timing.rally, func() bool {
		leader := leaderOf(cl.Name, c.look(ctx, cl, cl.Nodes))
		return leader != nil && !slices.ContainsFunc(fresh, func(n Node) bool { return leader.standsBy(n.NodeID) })
	})
	if !counted {
		c.log.Warn("new nodes have no vote in their cluster yet", "cluster", cl.ID, "name", cl.Name)
	}
}

// mayHave tells whether what ended with an error may have been carried out.
func mayHave(err error) bool {
	if err == nil {
		return true
	}
	switch broker.KindOf(err) {
	case broker.Unconfirmed, broker.Internal:
		return true
	}
	return false
}

// joinAll tells all nodes but the first to join, at the same time.
func (a *attempt) joinAll(ctx context.Context, invitations []control.Invitation) error {
	others := a.cl.Nodes[1:]
	errs := make([]error, len(others))
	var wg sync.WaitGroup
	for i, n := range others {
		spec := a.cl.spec(n)
		if at := slices.IndexFunc(invitations, func(i control.Invitation) bool { return i.NodeID == n.NodeID }); at >= 0 {
			spec.Invitation = &invitations[at]
		}
		wg.Go(func() { errs[i] = a.tell(ctx, a.cl, n, control.JoinCluster(spec), nil) })
	}
	wg.Wait()
	for i, err := range errs {
		if mayHave(err) {
			a.began = append(a.began, others[i])
		}
	}
	for _, err := range errs {
		if err != nil {
			return err
		}
	}
	return nil
}

// settle waits for a leader and has it add the nodes that it does not count. The
// first node need not be the leader: other brokers elect one when all have
// joined.
func (a *attempt) settle(ctx context.Context) error {
	var seen []sight
	var err error
	agreed := a.until(ctx, a.timing.settle, func() bool {
		seen = a.look(ctx, a.cl, a.cl.Nodes)
		leader := leaderOf(a.cl.Name, seen)
		if leader == nil {
			return false
		}
		err = a.addMissing(ctx, leader)
		return err == nil || !passing(err)
	})
	switch {
	case err != nil:
		return err
	case !agreed:
		return noLeader(opCreate, a.cl, seen)
	}
	return nil
}

// passing tells whether an error is about who leads, which changes.
func passing(err error) bool {
	return errors.Is(err, control.ErrNotLeader) || errors.Is(err, control.ErrNoLeader)
}

func (a *attempt) addMissing(ctx context.Context, leader *sight) error {
	for _, n := range a.cl.Nodes {
		if leader.counts(n.NodeID) {
			continue
		}
		err := a.tell(ctx, a.cl, leader.Node, control.AddNode(a.cl.Name, n.ha()), &control.HAAdded{})
		if err != nil && !errors.Is(err, control.ErrMember) {
			return n.failed(fmt.Errorf("add the node: %w", err))
		}
	}
	return nil
}

// releaseAll ends connections that were made for nothing.
func (c *Clusters) releaseAll(ctx context.Context, nodes []Node) {
	for _, n := range nodes {
		c.rows.Release(ctx, n)
	}
}

// connection describes how a new cluster is reached: as its first node is.
func connection(cl Cluster) broker.ClusterConnection {
	n := cl.Nodes[0]
	r := broker.ClusterConnection{ID: cl.ID, URL: n.URL, Username: n.Target.Username, Password: n.Target.Password,
		ClientCert: n.Target.TLS.ClientCert, ClientKey: n.Target.TLS.ClientKey, CACert: n.Target.TLS.CACert}
	if n.Target.TLS.Verify {
		r.VerifyCACert = 1
	}
	return r
}

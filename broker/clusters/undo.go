package clusters

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"signalbox/broker"
	"signalbox/broker/control"
)

// undo dissolves what exists of the cluster, has the nodes that had joined restore what they had before, and
// deletes the cluster from the list. If some nodes may still be in it, it returns their errors, and the
// cluster stays in the list.
func (a *creation) undo(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), a.timing.undo)
	defer cancel()
	if len(a.changed) > 0 {
		if leader := leaderOf(a.cl.Name, a.observe(ctx, a.cl, a.changed)); leader != nil {
			for _, n := range a.cl.Nodes {
				if leader.reportsUnreachable(n.NodeID) { // otherwise the leader would try to reach it
					a.change(ctx, a.cl, leader.Node, control.RemoveNode(a.cl.Name, n.ha()), nil) //nolint:errcheck // as below
				}
			}
			a.change(ctx, a.cl, leader.Node, control.DeleteCluster(a.cl.Name), nil) //nolint:errcheck // the nodes are observed next
		}
		if err := a.awaitDeparture(ctx, a.cl, a.changed); err != nil {
			return err
		}
		a.replaced = a.restoreNodes(ctx, a.cl, a.changed[1:]...)
	}
	return a.rows.Delete(ctx, a.cl.ProjectID, a.cl.ID)
}

// restoreNodes has nodes that have left the cluster restore what they had before they joined: the access control and what
// the syncmode shares. It returns the errors of those that have the cluster's instead.
func (c *Clusters) restoreNodes(ctx context.Context, cl Cluster, nodes ...Node) error {
	views := make([]nodeView, len(nodes))
	var wg sync.WaitGroup
	for i, n := range nodes {
		wg.Go(func() {
			views[i].Node = n
			if err := c.change(ctx, cl, n, control.UndoJoin(cl.Name), nil); !errors.Is(err, control.ErrNothingKept) { // it has not joined
				views[i].err = err
			}
		})
	}
	wg.Wait()
	failed := unreachable(views)
	if len(failed) == 0 {
		return nil
	}
	return joinNodeErrors(opCreate, broker.Unavailable, "", failed)
}

// withReplaced adds to an error which nodes have what the cluster that is undone had in place of their own.
func withReplaced(err, replaced error) error {
	e, ok := errors.AsType[*broker.Error](err)
	r, named := errors.AsType[*broker.Error](replaced)
	if !ok || !named {
		return errors.Join(err, replaced)
	}
	out := *e
	out.Msg = fmt.Sprintf("%s; these nodes may have the access control and messages of the cluster in place of their own, which you have to import or restore from a backup: %s", e.Msg, r.Msg)
	out.Err = errors.Join(err, replaced)
	return &out
}

// awaitDeparture waits until nodes that were removed have left a cluster, and has those leave
// that stay. It returns the errors of nodes that may still be in it.
func (c *Clusters) awaitDeparture(ctx context.Context, cl Cluster, nodes []Node) error {
	var views []nodeView
	out := c.poll(ctx, c.timing.departure, func() bool {
		views = c.observe(ctx, cl, nodes)
		return len(members(cl.Name, views)) == 0
	})
	var errs []error
	if !out {
		errs = c.leaveAlone(ctx, cl, members(cl.Name, views))
	}
	for _, s := range unreachable(views) {
		errs = append(errs, s.err)
	}
	return errors.Join(errs...)
}

// leaveAlone has nodes leave without their leader.
func (c *Clusters) leaveAlone(ctx context.Context, cl Cluster, nodes []Node) (errs []error) {
	for _, n := range nodes {
		err := c.change(ctx, cl, n, control.LeaveCluster(cl.Name, n.ha()), nil)
		if !errors.Is(err, control.ErrNoCluster) {
			errs = append(errs, err)
		}
	}
	return errs
}

// withLeftover adds what could not be undone to an error, and what to do.
func withLeftover(err, left error, then string) error {
	e, ok := errors.AsType[*broker.Error](err)
	if left == nil || !ok {
		return errors.Join(err, left)
	}
	out := *e
	out.Msg = fmt.Sprintf("%s; what had been done could not all be undone (%s): %s", e.Msg, errorText(left), then)
	out.Err = errors.Join(err, left)
	return &out
}

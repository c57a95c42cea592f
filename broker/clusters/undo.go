package clusters

import (
	"context"
	"errors"
	"fmt"
	"time"

	"signalbox/broker"
	"signalbox/broker/control"
)

// undo dissolves what there is of the cluster and forgets it. The error is
// of the nodes that may still be in it; the cluster is not forgotten then.
func (a *attempt) undo(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), a.timing.undo)
	defer cancel()
	if len(a.began) > 0 {
		if leader := leaderOf(a.cl.Name, a.look(ctx, a.cl, a.began)); leader != nil {
			a.tell(ctx, a.cl, leader.Node, control.DeleteCluster(a.cl.Name), nil) //nolint:errcheck // the nodes are looked at next
		}
		if err := a.free(ctx, a.cl, a.began); err != nil {
			return err
		}
	}
	return a.rows.Delete(ctx, a.cl.ProjectID, a.cl.ID)
}

// free waits until nodes are out of a cluster that they were told to be out of,
// and has those leave that stay. The error is of the nodes that may be in it
// still.
func (c *Clusters) free(ctx context.Context, cl Cluster, nodes []Node) error {
	var seen []sight
	out := c.until(ctx, c.timing.notice, func() bool {
		seen = c.look(ctx, cl, nodes)
		return len(members(cl.Name, seen)) == 0
	})
	var errs []error
	if !out {
		errs = c.leaveAlone(ctx, cl, members(cl.Name, seen))
	}
	for _, s := range missed(seen) {
		errs = append(errs, s.err)
	}
	return errors.Join(errs...)
}

// leaveAlone has nodes leave without their leader.
func (c *Clusters) leaveAlone(ctx context.Context, cl Cluster, nodes []Node) (errs []error) {
	for _, n := range nodes {
		err := c.tell(ctx, cl, n, control.LeaveCluster(cl.Name, n.ha()), nil)
		if !errors.Is(err, control.ErrNoCluster) {
			errs = append(errs, err)
		}
	}
	return errs
}

// until looks again and again whether something is so. A look that has begun is
// not cut off.
func (c *Clusters) until(ctx context.Context, most time.Duration, so func() bool) bool {
	over := time.NewTimer(most)
	defer over.Stop()
	pause := time.NewTicker(c.timing.pause)
	defer pause.Stop()
	for !so() {
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

// leaving adds to a failure what could not be undone.
func leaving(err, left error) error {
	e, ok := errors.AsType[*broker.Error](err)
	if left == nil || !ok {
		return errors.Join(err, left)
	}
	out := *e
	out.Msg = fmt.Sprintf("%s; what had been done could not all be undone (%s): delete the cluster when its nodes can be reached", e.Msg, cause(left))
	out.Err = errors.Join(err, left)
	return &out
}

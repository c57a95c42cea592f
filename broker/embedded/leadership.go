package embedded

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"signalbox/broker/embedded/cluster"
	"signalbox/broker/embedded/cluster/replica"
	"signalbox/broker/embedded/store"
)

// leadTimeout bounds the wait until everything is applied that earlier leaders have
// committed; after it the node tries again.
const leadTimeout = 5 * time.Second

// leadBackoff is the delay before a node that could not serve as the leader tries again.
const leadBackoff = time.Second

// errNotLeading is why a node that was elected does not serve: earlier changes are not all
// applied, or the leadership has ended.
var errNotLeading = errors.New("the node does not lead yet")

// lead serves the clients from what the cluster has stored. A node that cannot returns to
// waiting, and asks another node to lead.
func (m *member) lead(ctx context.Context) error {
	l, err := m.establish(ctx)
	if err != nil {
		m.serving = waiting
		return fmt.Errorf("%w: %w", errNotLeading, err)
	}
	m.leadership = l
	m.ensureClusterTime(ctx)
	if m.lost, err = m.broker.replica.Lead(ctx, proposer(l)); err != nil {
		return err
	}
	if err = m.startServing(ctx); err == nil {
		return nil
	}
	m.leadAfter = m.broker.now().Add(leadBackoff)
	if left := m.withdraw(ctx, leading); left != nil {
		return errors.Join(err, left)
	}
	m.serving = waiting
	if !errors.Is(err, errNotLeading) {
		m.broker.log.Warn("the broker cannot serve the clients, and asks another node to lead the cluster")
		accepting, drained := m.voters(ctx)
		m.transferLeadership(ctx, append(accepting, drained...))
	}
	return err
}

// establish returns this node's leadership once everything that was committed before is
// applied. If the node stopped serving within the same term, that includes its own
// proposals, whose outcome only another proposal in that term can show.
func (m *member) establish(ctx context.Context) (cluster.Leadership, error) {
	ctx, cancel := context.WithTimeout(ctx, leadTimeout)
	defer cancel()
	l, err := m.node.Lead(ctx)
	if err == nil && l == m.leadership {
		_, _, err = l.Propose(ctx, withKind(kindMessages, store.AppendChanges(nil, nil)))
	}
	return l, err
}

// startServing resumes the engine from what is stored, however long reading that takes, and
// opens the listeners.
func (m *member) startServing(ctx context.Context) error {
	b, l, lost, began := m.broker, m.leadership, m.lost, time.Now()
	b.tasks.Go(func() { m.watch(lost) })
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	b.tasks.Go(func() { checkLeadership(ctx, l, cancel) })
	if err := b.engine.Resume(ctx); err != nil {
		return err
	}
	if err := b.listeners.Restrict(false); err != nil {
		return err
	}
	b.log.Info("the broker leads its cluster and serves the clients", "term", l.Term(), "duration", time.Since(began))
	b.tasks.Go(func() { b.engine.Refer(m.clientAddresses(context.Background())) }) // now, since it does not wait for that when it leads no more
	return nil
}

// checkLeadershipEvery is how often a node checks that it still leads while it reads
// what is stored.
const checkLeadershipEvery = 100 * time.Millisecond

// checkLeadership cancels the context with errNotLeading when the leadership ends, and
// returns then or when the context ends.
func checkLeadership(ctx context.Context, l cluster.Leadership, cancel context.CancelCauseFunc) {
	ticks := time.NewTicker(checkLeadershipEvery)
	defer ticks.Stop()
	for l.IsCurrent() {
		select {
		case <-ticks.C:
		case <-ctx.Done():
			return
		}
	}
	cancel(errNotLeading)
}

// voters returns the other voters that answer this leader: those that accept clients, and those that
// are drained.
func (m *member) voters(ctx context.Context) (accepting, drained []cluster.NodeID) {
	accept := m.acceptingPeers(ctx)
	info, err := m.node.Info()
	for _, n := range m.node.Status().Nodes {
		switch {
		case err != nil || n.NodeID == info.Self || n.Role != cluster.RoleVoter || n.Err != nil:
		case slices.Contains(accept, n.NodeID):
			accepting = append(accepting, n.NodeID)
		default:
			drained = append(drained, n.NodeID)
		}
	}
	return accepting, drained
}

// transferLeadership asks nodes, one after the other, to lead instead of this node.
func (m *member) transferLeadership(ctx context.Context, to []cluster.NodeID) {
	ctx, cancel := context.WithTimeout(ctx, leadTimeout)
	defer cancel()
	for _, n := range to {
		if err := m.node.SetLeader(ctx, n); err == nil {
			m.broker.log.Info("the broker has handed over the leadership of its cluster", "node", int(n))
			return
		}
	}
}

// watch causes the serving state to be checked when the leadership is lost.
func (m *member) watch(lost <-chan struct{}) {
	select {
	case <-lost:
		m.changed()
	case <-m.broker.life.closing:
	}
}

// proposer returns the function with which the replica proposes changes to messages under a
// leadership.
func proposer(l cluster.Leadership) replica.Proposer {
	return func(changes []byte) (wait func(context.Context) error) {
		w := l.Begin(withKind(kindMessages, changes))
		return func(ctx context.Context) error {
			_, err := w(ctx)
			return err
		}
	}
}

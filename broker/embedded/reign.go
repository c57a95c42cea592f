package embedded

import (
	"context"
	"errors"
	"fmt"
	"time"

	"signalbox/broker/embedded/cluster"
	"signalbox/broker/embedded/store"
)

// leadPatience is how long it may take to have everything applied that earlier
// leaders have committed, before it is tried again.
const leadPatience = 5 * time.Second

// restTime is how long a node does not try to lead that could not.
const restTime = time.Second

// errNotYet is why a node that was elected does not lead: earlier changes are not
// all applied, or it leads no more.
var errNotYet = errors.New("the node does not lead yet")

// lead serves the clients, from what the cluster has kept. A node that cannot leaves
// them to others again, and asks one of those to lead.
func (m *member) lead(ctx context.Context) error {
	tenure, err := m.tenure(ctx)
	if err != nil {
		m.regime = waiting
		return fmt.Errorf("%w: %w", errNotYet, err)
	}
	m.term = tenure.Term()
	m.agreeOnTime(ctx)
	if m.lost, err = m.broker.replica.Lead(ctx, reign{m.node, tenure}); err != nil {
		return err
	}
	if err = m.ascend(ctx); err == nil {
		return nil
	}
	m.rests = m.broker.now().Add(restTime)
	if left := m.withdraw(ctx, leading); left != nil {
		return errors.Join(err, left)
	}
	m.regime = waiting
	if !errors.Is(err, errNotYet) {
		m.passOn(ctx)
	}
	return err
}

// tenure waits until all is applied that was agreed upon before, also of what this
// node has begun in an earlier reign of the same term.
func (m *member) tenure(ctx context.Context) (cluster.Tenure, error) {
	ctx, cancel := context.WithTimeout(ctx, leadPatience)
	defer cancel()
	tenure, err := m.node.Lead(ctx)
	if err == nil && tenure.Term() == m.term {
		_, _, err = m.node.ProposeIn(ctx, tenure, with(aboutMessages, store.AppendChanges(nil, nil)))
	}
	return tenure, err
}

// ascend has the engine go on with what is stored, however long it takes to read
// that, and opens the doors.
func (m *member) ascend(ctx context.Context) error {
	b, lost, began := m.broker, m.lost, time.Now()
	b.tasks.Go(func() { m.watch(lost) })
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	term := m.term
	b.tasks.Go(func() { m.attend(ctx, term, cancel) })
	if err := b.engine.Resume(ctx); err != nil {
		return err
	}
	if err := b.doors.Restrict(false); err != nil {
		return err
	}
	b.log.Info("the broker leads its cluster and serves the clients", "term", m.term, "took", time.Since(began))
	return nil
}

// attendEvery is how often a node makes sure that it still leads while it reads what
// is stored.
const attendEvery = 100 * time.Millisecond

// attend breaks off what makes no sense if this node leads no more. It ends with the
// context.
func (m *member) attend(ctx context.Context, term uint64, breakOff context.CancelCauseFunc) {
	again := time.NewTicker(attendEvery)
	defer again.Stop()
	for m.node.IsLeader() && m.node.Term() == term {
		select {
		case <-again.C:
		case <-ctx.Done():
			return
		}
	}
	breakOff(errNotYet)
}

// passOn has another node lead, one of those that answer, if it can be had.
func (m *member) passOn(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, leadPatience)
	defer cancel()
	info, err := m.node.Info()
	if err != nil {
		return
	}
	for _, n := range m.node.Status().Nodes {
		if n.NodeID == info.Self || n.Role != cluster.RoleVoter || n.Err != nil {
			continue
		}
		m.broker.log.Warn("the broker cannot serve the clients, and asks another node to lead the cluster", "node", int(n.NodeID))
		if err := m.node.SetLeader(ctx, n.NodeID); err == nil {
			return
		}
	}
}

// watch has the node's place looked at when a reign is over.
func (m *member) watch(lost <-chan struct{}) {
	select {
	case <-lost:
		m.changed()
	case <-m.broker.life.closing:
	}
}

// reign is a time during which this node leads without interruption.
type reign struct {
	node   *cluster.Node
	tenure cluster.Tenure
}

// Begin hands changes of messages over to be agreed upon.
func (r reign) Begin(changes []byte) (wait func(context.Context) error) {
	w := r.node.Begin(r.tenure, with(aboutMessages, changes))
	return func(ctx context.Context) error {
		_, err := w(ctx)
		return err
	}
}

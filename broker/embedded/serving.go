package embedded

import (
	"context"
	"errors"
	"time"

	"signalbox/broker/embedded/store"
	"signalbox/broker/mqtt/packet"
	"signalbox/broker/storage"
)

// sharing is what the nodes of a cluster share in addition to their access control.
type sharing int32

const (
	sharesNothing    sharing = iota // syncmode dynsec, or no cluster
	sharesEverything                // full: sessions, queues and retained messages
	sharesRetained                  // hp: retained messages
)

// syncModes are the supported modes.
var syncModes = map[string]sharing{"dynsec": sharesNothing, "full": sharesEverything, "hp": sharesRetained}

// snapshotKind returns the first byte of a snapshot.
func (s sharing) snapshotKind() byte {
	return map[sharing]byte{sharesNothing: holdsAccess, sharesEverything: holdsEverything, sharesRetained: holdsRetained}[s]
}

// servingState determines which clients this broker serves and where their messages are
// stored. It changes step by step: alone – waiting – leading, and alone – meshed.
type servingState int

const (
	alone   servingState = iota // sessions and messages are its own
	waiting                     // syncmode full: another node leads, this one serves administrators only
	leading                     // syncmode full: this node leads
	meshed                      // syncmode hp
	between                     // a step has started and not finished
)

// begin restores the serving state that the broker had when it was closed, before anything
// of the cluster's log is applied.
func (m *member) begin(ctx context.Context) error {
	part, shared := m.broker.store.Shared()
	switch {
	case !shared:
		if err := m.broker.engine.Load(ctx); err != nil {
			return err
		}
		return m.standBy()
	case part == store.Everything:
		m.setSharing(sharesEverything)
		return m.changeTo(ctx, waiting)
	}
	m.setSharing(sharesRetained)
	if err := m.broker.engine.Load(ctx); err != nil {
		return err
	}
	return m.changeTo(ctx, meshed)
}

// desired returns the serving state for what is shared. A leader whose leadership was
// interrupted has to wait first: it may lack changes of another leader.
func (m *member) desired(s sharing) servingState {
	switch {
	case s == sharesRetained:
		return meshed
	case s != sharesEverything:
		return alone
	case m.serving == leading && (!m.leadership.IsCurrent() || m.isLost()):
		return waiting
	case m.serving != leading && m.broker.now().Before(m.leadAfter):
		return waiting
	case m.node.IsLeader():
		return leading
	}
	return waiting
}

// isLost reports whether the cluster has not committed a proposal of this node.
func (m *member) isLost() bool {
	select {
	case <-m.lost:
		return true
	default:
		return false
	}
}

// changeTo changes the serving state, step by step. The caller holds transition.
func (m *member) changeTo(ctx context.Context, to servingState) error {
	for m.serving != to {
		from, next := m.serving, m.serving.step(to)
		m.serving = between
		if err := m.enterState(ctx, from, next); err != nil {
			return err
		}
		m.serving = next
	}
	return nil
}

// step returns the next state on the way to another one.
func (s servingState) step(to servingState) servingState {
	switch {
	case s == leading, s != waiting && to == leading:
		return waiting
	case s == meshed, s != alone && to == meshed:
		return alone
	}
	return to
}

// enterState makes one step. From between, after a step that failed, it undoes everything
// that any state may have done.
func (m *member) enterState(ctx context.Context, from, next servingState) error {
	switch {
	case next == leading:
		return m.lead(ctx)
	case next == meshed:
		return m.shareRetained(ctx)
	case next == waiting:
		return m.withdraw(ctx, from)
	}
	if from != waiting {
		if err := m.unshareRetained(ctx); err != nil {
			return err
		}
	}
	if from == meshed {
		return nil
	}
	return m.standAlone(ctx)
}

// errAnotherLeader is the error of what a leader has not committed in time.
var errAnotherLeader = errors.New("another node of the cluster leads")

// withdraw disconnects the clients and refers them to another node. What a leader has under
// way fails; what is this broker's alone is stored.
func (m *member) withdraw(ctx context.Context, from servingState) error {
	b := m.broker
	if err := b.listeners.Restrict(true); err != nil {
		return err
	}
	if from == leading {
		b.log.Info("the broker does not lead its cluster any more, and leaves the clients to another node")
	}
	if from != alone {
		if err := b.replica.Refuse(ctx, errAnotherLeader); err != nil {
			return err
		}
	}
	if err := b.suspend(ctx, packet.ReasonUseAnotherServer); err != nil {
		return err
	}
	if err := b.replica.Follow(ctx); err != nil {
		return err
	}
	return b.store.SetDurability(ctx, storage.Process)
}

// suspendTimeout bounds how long clients may take to disconnect.
const suspendTimeout = 5 * time.Second

func (b *Broker) suspend(ctx context.Context, reason byte) error {
	ctx, cancel := context.WithTimeout(ctx, suspendTimeout)
	defer cancel()
	return b.engine.Suspend(ctx, reason)
}

// standAlone serves the clients from what this broker has.
func (m *member) standAlone(ctx context.Context) error {
	b := m.broker
	if err := b.replica.Alone(ctx); err != nil {
		return err
	}
	if err := b.engine.Resume(ctx); err != nil {
		return err
	}
	return m.standBy()
}

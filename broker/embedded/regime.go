package embedded

import (
	"context"
	"errors"
	"time"

	"signalbox/broker/embedded/store"
	"signalbox/broker/mqtt/packet"
	"signalbox/broker/storage"
)

// sharing is what the nodes of a cluster share beside their access control.
type sharing int32

const (
	sharesNothing    sharing = iota // syncmode dynsec, or no cluster
	sharesEverything                // full: sessions, queues and retained messages
	sharesRetained                  // hp: retained messages
)

// syncModes are the modes that this broker offers.
var syncModes = map[string]sharing{"dynsec": sharesNothing, "full": sharesEverything, "hp": sharesRetained}

// holds gives the first byte of a snapshot.
func (s sharing) holds() byte {
	return map[sharing]byte{sharesNothing: holdsAccess, sharesEverything: holdsEverything, sharesRetained: holdsRetained}[s]
}

// regime is the way in which this broker serves. Between two of them it goes by
// one or two steps: alone – waiting – leading, and alone – meshed.
type regime int

const (
	alone   regime = iota // sessions and messages are its own
	waiting               // syncmode full: another node leads, this one serves administrators only
	leading               // syncmode full: it leads
	meshed                // syncmode hp
	between               // a step was begun and has not come to its end
)

// begin takes up the regime that the broker had when it was closed, before
// anything of the cluster's log is applied.
func (m *member) begin(ctx context.Context) error {
	part, shared := m.broker.store.Shared()
	switch {
	case !shared:
		return m.broker.engine.Load(ctx)
	case part == store.Everything:
		m.share(sharesEverything)
		return m.turn(ctx, waiting)
	}
	m.share(sharesRetained)
	if err := m.broker.engine.Load(ctx); err != nil {
		return err
	}
	return m.turn(ctx, meshed)
}

// demanded gives the regime for what is shared. A leader whose reign was
// interrupted does not lead any more: what it knows is not all there is.
func (m *member) demanded(s sharing) regime {
	switch {
	case s == sharesRetained:
		return meshed
	case s != sharesEverything:
		return alone
	case m.regime == leading && (m.node.Term() != m.term || m.isLost()):
		return waiting
	case m.regime != leading && m.broker.now().Before(m.rests):
		return waiting
	case m.node.IsLeader():
		return leading
	}
	return waiting
}

// isLost tells whether something was not agreed upon.
func (m *member) isLost() bool {
	select {
	case <-m.lost:
		return true
	default:
		return false
	}
}

// turn goes to a regime, step by step. The place is held.
func (m *member) turn(ctx context.Context, to regime) error {
	for m.regime != to {
		from, next := m.regime, m.regime.step(to)
		m.regime = between
		if err := m.take(ctx, from, next); err != nil {
			return err
		}
		m.regime = next
	}
	return nil
}

// step gives the next regime on the way to another one.
func (r regime) step(to regime) regime {
	switch {
	case r == leading, r != waiting && to == leading:
		return waiting
	case r == meshed, r != alone && to == meshed:
		return alone
	}
	return to
}

// take does one step. After one that failed all is undone that it may have done.
func (m *member) take(ctx context.Context, from, next regime) error {
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

// errElsewhere is what becomes of what a leader has not agreed upon in time.
var errElsewhere = errors.New("another node of the cluster leads")

// withdraw leaves the clients to another node, which is told to them. What is
// under way of a leader's comes to nothing here; what is this broker's alone is
// stored.
func (m *member) withdraw(ctx context.Context, from regime) error {
	b := m.broker
	if err := b.doors.Restrict(true); err != nil {
		return err
	}
	if from == leading {
		b.log.Info("the broker does not lead its cluster any more, and leaves the clients to another node")
	}
	if from != alone {
		if err := b.replica.Refuse(ctx, errElsewhere); err != nil {
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

// suspendPatience is how long clients may take to be gone.
const suspendPatience = 5 * time.Second

func (b *Broker) suspend(ctx context.Context, reason byte) error {
	ctx, cancel := context.WithTimeout(ctx, suspendPatience)
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
	return b.doors.Restrict(false)
}

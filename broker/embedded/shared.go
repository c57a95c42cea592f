package embedded

import (
	"context"
	"errors"
	"fmt"
	"time"

	"signalbox/broker"
	"signalbox/broker/control"
	"signalbox/broker/embedded/cluster"
)

// Shared is a database of the program that has the same content on all nodes of a cluster which was
// created with it: Apply, Flush, Applied, Schema, Snapshot and Restore are those of [cluster.Shared].
//
// It is the program's own, and changed by the program alone, or shared, and changed by Apply and
// Restore only. Which of both is stored by the broker, as part of its cluster's state; the database
// has to store no more than Applied, which is 0 while it is the program's own. The broker calls:
//
//   - at its start, in New: Begin if it is a node of a cluster with the data, before anything of the
//     log is applied; End if it is not, and Applied is not 0, because an earlier process ended
//     between leaving a cluster and End
//   - when it creates a cluster: Begin, Snapshot, and Restore of that snapshot with index 1; the
//     content becomes that of the cluster
//   - when it joins one with an invitation to share the data: Begin, Snapshot, which is kept
//     for an hour, and, as soon as the node is admitted, Restore of the cluster's content
//   - when creating or joining fails: End; the content is what it was unless the node had been
//     admitted
//   - when the node has left the cluster or was removed, and when the cluster is dissolved: End,
//     after the last Apply; the content stays as the program's own
//   - when joining is undone, after End: Restore of what was kept, with index 0
//
// A broker that is closed does not call End. Close it before the database. Begin also moves the definitions of
// the broker's streams and bridges to where the nodes share them; see [Definitions].
//
// While the content is shared the broker also calls Maintain and Answer, beside the others.
type Shared interface {
	cluster.Shared

	// Maintain does what the content needs of the other nodes, such as to receive a key. It is called
	// every second, when members have changed, and before this node leaves, one call after the other. Its
	// error is a warning of this node, until a later call returns another result. A node that has joined
	// has no vote until a call has succeeded: so a majority of the voters can do without the others.
	Maintain(ctx context.Context, members SharedMembers) error

	// Answer returns the response to a request of another member, which its Maintain has sent.
	Answer(ctx context.Context, members SharedMembers, request []byte) ([]byte, error)

	// Begin makes the content shared. When it returns, no change that was begun alone is under way,
	// and until End every change goes through the log. After an error the content is the program's
	// own. Begin of a content that is shared has no effect.
	Begin(ctx context.Context, log SharedLog) error

	// End makes the content the program's own, and Applied 0, durably. Calls of the log that are
	// under way have returned, or return soon, without waiting for End. After an error it is called
	// again. End of a content that is the program's own has no effect.
	End(ctx context.Context) error
}

// SharedSnapshot is the content of a Shared at one moment.
type SharedSnapshot = cluster.Snapshot

// SharedLog is the cluster's log as the program sees it. Its methods can be called on any node. Of
// their errors, broker.KindOf is Unavailable if nothing has happened and can be tried again, and
// Unconfirmed if the change may be, or may still be, applied. Without a deadline they wait for 10 s.
type SharedLog interface {
	// Propose has an entry of at most cluster.MaxSharedEntry bytes applied on all nodes, and returns
	// the result of Apply. When it returns without an error, a majority has stored the entry, and
	// this node has applied it.
	Propose(ctx context.Context, entry []byte) (result []byte, err error)

	// Sync returns nil once this node has applied everything that was acknowledged to any caller of
	// Propose, on any node, before Sync was called, and what any node had applied by then: what was read there is
	// read here. It changes nothing, and is never Unconfirmed.
	Sync(ctx context.Context) error

	// Leads reports whether this node leads the cluster, as far as it knows.
	Leads() bool

	// SharesMessages reports whether the nodes share messages, too: in the syncmodes full and hp.
	SharesMessages() bool
}

// SharedMembers are the members of the cluster that shares the content, as this node knows them.
type SharedMembers interface {
	// Leads reports whether this node leads.
	Leads() bool

	// Removal returns the index of the log at which a member was removed last, 0 if none was.
	Removal() uint64

	// Others returns the numbers of the other members, and which of them have a vote. The error means that this
	// node is no member at present.
	Others() (voters, others []int, err error)

	// Ask sends a request to the Answer of another member. What is sent is encrypted, and neither
	// stored nor logged.
	Ask(ctx context.Context, nodeID int, request []byte) ([]byte, error)
}

// The first byte of a request to the leader about the Shared.
const (
	kindShared = 'P' // an entry is to be proposed
	kindSync   = 'S' // the leader is to confirm that it leads
)

// sharedLog is the SharedLog of a node.
type sharedLog struct {
	*member
	sharesMessages bool
}

// SharesMessages implements SharedLog.
func (l sharedLog) SharesMessages() bool { return l.sharesMessages }

// Propose implements SharedLog.
func (l sharedLog) Propose(ctx context.Context, entry []byte) ([]byte, error) {
	if len(entry) > cluster.MaxSharedEntry {
		return nil, &broker.Error{Kind: broker.Invalid, Msg: fmt.Sprintf("the change has %d bytes, and in a cluster it may have %d: divide it", len(entry), cluster.MaxSharedEntry)}
	}
	result, err := l.forwardShared(ctx, withKind(kindShared, entry))
	return result, outcomeOf(err)
}

// Sync implements SharedLog.
func (l sharedLog) Sync(ctx context.Context) error {
	if _, err := l.forwardShared(ctx, []byte{kindSync}); err != nil {
		return &broker.Error{Kind: broker.Unavailable, Err: err, Msg: "the node cannot find out at the moment whether it has the latest data of the cluster: " + err.Error()}
	}
	return nil
}

// Leads implements SharedLog.
func (l sharedLog) Leads() bool {
	select {
	case <-l.ready:
		return l.node.IsLeader()
	default:
		return false
	}
}

// sharedTimeout bounds a call of the log whose context has no deadline.
const sharedTimeout = 10 * time.Second

// forwardShared forwards a request to the leader. While the node is entering its cluster, it waits.
func (m *member) forwardShared(ctx context.Context, request []byte) ([]byte, error) {
	if _, ok := ctx.Deadline(); !ok {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, sharedTimeout)
		defer cancel()
	}
	select {
	case <-m.ready:
	case <-ctx.Done():
		return nil, fmt.Errorf("%w: %w", cluster.ErrNoLeader, context.Cause(ctx))
	}
	again := time.NewTicker(infoRetryInterval)
	defer again.Stop()
	for {
		answer, err := m.node.Forward(ctx, request)
		if !errors.Is(err, cluster.ErrNotClustered) || errors.Is(err, cluster.ErrUnconfirmed) || !m.isEntering() || !m.sharesData.Load() {
			return answer, err
		}
		select {
		case <-again.C:
		case <-ctx.Done():
			return nil, err
		}
	}
}

// confirmLeading returns nil if this node leads, and has applied everything that was acknowledged, or applied at
// any node, before the call.
func (m *member) confirmLeading(ctx context.Context) error {
	l, err := m.node.Lead(ctx)
	if err != nil {
		return err
	}
	return l.Sync(ctx)
}

// beginShared makes the program's data shared. The caller holds transition, or has not opened the
// node.
func (m *member) beginShared(ctx context.Context, of sharing) error {
	m.dataEnded = false
	m.maintenance.outcome.Store(nil)
	m.sharesData.Store(true)
	if err := m.broker.config.Shared.Begin(ctx, sharedLog{m, of != sharesNothing}); err != nil {
		return fmt.Errorf("share the data of the platform: %w", err)
	}
	return nil
}

// endShared makes the shared data the program's own, if they are shared. The caller holds
// transition, or has not opened the node.
func (m *member) endShared(ctx context.Context) error {
	if m.dataEnded {
		return nil
	}
	m.sharesData.Store(false) // so that no call of the log waits any more
	if err := endShared(ctx, m.broker.config.Shared); err != nil {
		return err
	}
	m.dataEnded = true
	return nil
}

func endShared(ctx context.Context, s Shared) error {
	if err := s.End(ctx); err != nil {
		return fmt.Errorf("make the data of the platform this broker's own: %w", err)
	}
	return nil
}

// resumeShared calls begin, before anything of the log is read, if the broker is in a cluster that
// shares the data of the program.
func (b *Broker) resumeShared(ctx context.Context, dir string, begin func(context.Context) error) error {
	shared := b.config.Shared
	if shared == nil {
		return nil
	}
	stored, err := cluster.ReadStored(ctx, dir)
	switch {
	case err != nil:
		return err
	case stored.Shared:
		return begin(ctx)
	case shared.Applied() > 0:
		err = endShared(ctx, shared)
	}
	if err == nil && len(stored.Members) > 0 {
		b.log.Warn("cluster.share_data has no effect, because the cluster was created without it: create the cluster anew to share the data of the platform")
	}
	return err
}

// errShareApart is why a broker does not join a cluster.
var errShareApart = &broker.Error{Kind: broker.Conflict, Msg: "the cluster does not share the data of the platform, which this broker is to share: " +
	"set cluster.share_data to false here, or create the cluster anew with it set to true at all nodes"}

// seal returns an invitation as it is sent to the other node.
func (m *member) seal(i cluster.Invitation) (control.Invitation, error) {
	if i.Shared {
		i.Schema, _ = m.broker.config.Shared.Schema()
	}
	return control.NewInvitation(int(i.NodeID), i)
}

// checkInvitation returns an error if this broker cannot share what the cluster shares.
func (m *member) checkInvitation(i cluster.Invitation) error {
	shared := m.broker.config.Shared
	if shared == nil {
		return nil // the node's own checks refuse it
	}
	if !i.Shared {
		return errShareApart
	}
	if stored, _ := shared.Schema(); i.Schema != 0 && i.Schema != stored {
		return &broker.Error{Kind: broker.Conflict, Msg: fmt.Sprintf("the cluster shares the data of the platform with schema %d, and the release of this broker has schema %d: "+
			"have all nodes of the cluster and this broker run the same release first", i.Schema, stored)}
	}
	return nil
}

// errSharedAlone is why a broker without a cluster port does not start.
var errSharedAlone = errors.New("the data of the platform are shared with a cluster: set cluster.listen again, and let the broker leave the cluster first")

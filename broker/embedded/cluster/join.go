package cluster

import (
	"context"
	"errors"
	"fmt"
	"slices"
)

// Join accepts an invitation. When it returns nil, this node's machine has the state of the
// cluster. If the context ends before that, the error is ErrWaiting: the node has joined, and
// continues to wait. After ErrInvitation it is at rest again.
func (n *Node) Join(ctx context.Context, spec Spec, inv Invitation) error {
	if err := spec.Check(); err != nil {
		return err
	}
	id, err := inv.accept(spec)
	if err != nil {
		return err
	}
	if err := n.checkShared(id.Shared); err != nil {
		return fmt.Errorf("%w: %w", ErrInvalid, err)
	}
	if err := n.join(ctx, id); err != nil {
		return err
	}
	for ctx.Err() == nil {
		s, err := n.running()
		if err == nil {
			err = s.awaitApplied(ctx, inv.Generation)
		}
		switch {
		case err == nil:
			return nil
		case errors.Is(err, ErrNotClustered):
			return fmt.Errorf("%w: the cluster does not have the node as a member", ErrInvitation)
		case errors.Is(err, ErrClosed):
			return err
		}
		pause(ctx, n.options.Timing.Heartbeat/16) // the membership is being restarted
	}
	return fmt.Errorf("%w: %w", ErrWaiting, context.Cause(ctx))
}

// accept checks that an invitation is for this node and this cluster, and returns the
// identity that it contains.
func (i Invitation) accept(spec Spec) (*identity, error) {
	if i.NodeID != spec.Self {
		return nil, fmt.Errorf("%w: it is for node %d, and this is node %d", ErrInvitation, i.NodeID, spec.Self)
	}
	at := slices.IndexFunc(spec.Members, func(m Member) bool { return m.NodeID == spec.Self })
	id := &identity{
		UUID: i.UUID, Self: spec.Members[at], Known: i.Nodes, Keys: i.Keys, Shared: i.Shared,
		CACert: []byte(i.CACert), Cert: []byte(i.Cert), Key: []byte(i.Key),
	}
	id.Self.Generation = i.Generation
	if len(id.Known) == 0 {
		return nil, fmt.Errorf("%w: it has no nodes", ErrInvitation)
	}
	if _, err := id.credentials(); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrInvitation, err)
	}
	return id, nil
}

// join stores this node's identity, and starts its membership.
func (n *Node) join(ctx context.Context, id *identity) error {
	if err := n.lock(ctx); err != nil {
		return err
	}
	defer n.unlock()
	if err := n.checkNotClustered(); err != nil {
		return err
	}
	c := clearedValues()
	c[nameIdentity] = id.encode(n.options.Seal)
	if err := n.store.Clear(c); err != nil {
		return err
	}
	if err := n.startMembership(ctx, id); err != nil {
		return n.rollBack(err)
	}
	return nil
}

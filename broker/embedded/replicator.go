package embedded

import (
	"context"
	"errors"
	"fmt"

	"signalbox/broker"
	"signalbox/broker/embedded/cluster"
)

// Leads reports whether changes are decided on this node.
func (m *member) Leads() bool { return m.node.IsLeader() }

// Replicate causes a change to be applied on all nodes.
func (m *member) Replicate(ctx context.Context, change []byte) error {
	_, _, err := m.node.Propose(ctx, withKind(kindAccess, change))
	return outcomeOf(err)
}

// Forward forwards a request about access control to the leader.
func (m *member) Forward(ctx context.Context, request []byte) ([]byte, error) {
	answer, err := m.node.Forward(ctx, withKind(kindAccess, request))
	return answer, outcomeOf(err)
}

// outcomeOf returns an error that shows whether the proposal may still be applied.
func outcomeOf(err error) error {
	if err == nil {
		return nil
	}
	if _, remote := errors.AsType[*cluster.RemoteError](err); remote || errors.Is(err, cluster.ErrUnconfirmed) {
		return &broker.Error{Kind: broker.Unconfirmed, Err: err, Msg: "the cluster did not confirm the change in time: it may be in force"}
	}
	return &broker.Error{Kind: broker.Unavailable, Err: err, Msg: "the cluster accepts no changes at the moment: " + err.Error()}
}

// serve handles, on the leader, a request of another node.
func (m *member) serve(ctx context.Context, _ cluster.NodeID, request []byte) ([]byte, error) {
	select {
	case <-m.ready:
	case <-ctx.Done():
		return nil, cluster.ErrNoLeader
	}
	kind, body, err := splitKind(request)
	switch {
	case err != nil:
		return nil, err
	case kind == kindAccess:
		answer, disconnects := m.broker.control.Serve(ctx, body)
		m.broker.disconnect(disconnects)
		return answer, nil
	case kind == kindRetained:
		_, _, err := m.node.Propose(ctx, request)
		return nil, err
	case kind == kindShared:
		return m.node.ProposeShared(ctx, body)
	case kind == kindSync:
		return nil, m.confirmLeading(ctx)
	}
	return nil, fmt.Errorf("a request of kind %q is not supported by this release", kind)
}

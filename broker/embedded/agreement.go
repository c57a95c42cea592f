package embedded

import (
	"context"
	"errors"
	"fmt"

	"signalbox/broker"
	"signalbox/broker/embedded/cluster"
)

// Leads tells whether changes are decided here.
func (m *member) Leads() bool { return m.node.IsLeader() }

// Replicate has a change applied on all nodes.
func (m *member) Replicate(ctx context.Context, change []byte) error {
	_, _, err := m.node.Propose(ctx, with(aboutAccess, change))
	return outcomeOf(err)
}

// Forward has the leader serve a request about access control.
func (m *member) Forward(ctx context.Context, request []byte) ([]byte, error) {
	answer, err := m.node.Forward(ctx, with(aboutAccess, request))
	return answer, outcomeOf(err)
}

// outcomeOf says whether what was proposed may still happen.
func outcomeOf(err error) error {
	if err == nil {
		return nil
	}
	if _, remote := errors.AsType[*cluster.RemoteError](err); remote || errors.Is(err, cluster.ErrUnconfirmed) {
		return &broker.Error{Kind: broker.Unconfirmed, Err: err, Msg: "the cluster did not confirm the change in time: it may be in force"}
	}
	return &broker.Error{Kind: broker.Unavailable, Err: err, Msg: "the cluster takes no changes at the moment: " + err.Error()}
}

// serve does, as the leader, a request of another node.
func (m *member) serve(ctx context.Context, _ cluster.NodeID, request []byte) ([]byte, error) {
	select {
	case <-m.ready:
	case <-ctx.Done():
		return nil, cluster.ErrNoLeader
	}
	about, body, err := parted(request)
	switch {
	case err != nil:
		return nil, err
	case about == aboutAccess:
		answer, cuts := m.broker.control.Serve(ctx, body)
		m.broker.cut(cuts)
		return answer, nil
	case about == aboutRetained:
		_, _, err := m.node.Propose(ctx, request)
		return nil, err
	}
	return nil, fmt.Errorf("a request about %q is not known to this release", about)
}

package cluster

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/hashicorp/raft"
)

// AddNode makes a node a member and returns its invitation. The node takes part as soon as it has
// joined, and gets a vote when it has the state of the others. A member that does not respond,
// because it has lost its data or has not yet joined, gets a new generation, which invalidates
// earlier invitations. Only the leader can do this. Member.Generation is ignored.
func (n *Node) AddNode(ctx context.Context, m Member) (Invitation, error) {
	ctx, cancel := n.bounded(ctx)
	defer cancel()
	s, err := n.leadingMembership(ctx)
	if err != nil {
		return Invitation{}, err
	}
	old, known := s.fsm.state.Load().member(m.NodeID)
	if known {
		if old.NodeID == s.id.Self.NodeID {
			return Invitation{}, ErrMember
		}
		if _, err := s.askStatus(ctx, old); err == nil {
			return Invitation{}, ErrMember
		}
	}
	m.Generation = 0
	key, err := newKey()
	if err != nil {
		return Invitation{}, err
	}
	o := order{Op: opPut, Member: m, Was: old.Generation}
	if s.fsm.state.Load().Keys != nil {
		if o.Key, err = fingerprintOf(key); err != nil {
			return Invitation{}, err
		}
	}
	added, index, err := s.order(ctx, o)
	if err != nil {
		return Invitation{}, fmt.Errorf("add node %d: %w", m.NodeID, err)
	}
	s.notify()
	if err := s.awaitApplied(ctx, index); err != nil {
		return Invitation{}, unconfirmed(err)
	}
	return s.fsm.state.Load().inviteWith(added, key)
}

// leadingMembership returns the membership if this node leads.
func (n *Node) leadingMembership(ctx context.Context) (*membership, error) {
	s, err := n.running()
	if err != nil {
		return nil, err
	}
	if _, err := s.lead(ctx); err != nil {
		return nil, err
	}
	return s, nil
}

// RemoveNode ends a node's membership. The node comes to rest with its machine's data, at once or
// when it can be reached. Only the leader can do this; if it is to be removed itself, it
// transfers the leadership first.
func (n *Node) RemoveNode(ctx context.Context, id NodeID) error {
	ctx, cancel := n.bounded(ctx)
	defer cancel()
	s, err := n.leadingMembership(ctx)
	if err != nil {
		return err
	}
	m, ok := s.fsm.state.Load().member(id)
	switch {
	case !ok:
		return fmt.Errorf("remove node %d: %w", id, ErrUnknownNode)
	case id == s.id.Self.NodeID:
		return n.Leave(ctx)
	}
	return s.remove(ctx, id, m.Generation)
}

// remove ends the membership of another node.
func (s *membership) remove(ctx context.Context, id NodeID, generation uint64) error {
	if _, err := s.lead(ctx); err != nil {
		return err
	}
	m, ok := s.fsm.state.Load().member(id)
	if !ok || m.Generation != generation {
		return nil // it was removed before
	}
	if id == s.id.Self.NodeID {
		return ErrNotLeader // another node has to lead and remove this one
	}
	l := s.conns.detach(m) // a removed node gets no new connection
	if l != nil {
		defer l.close()
	}
	if _, _, err := s.order(ctx, order{Op: opRemove, Member: Member{NodeID: id}, Was: generation}); err != nil {
		return fmt.Errorf("remove node %d: %w", id, err)
	}
	s.notify()
	if err := s.notifyRemoved(ctx, l); err != nil {
		s.node.log.Info("a node cannot be told that it was removed; it will ask", "node", int(id), "error", err)
	}
	return nil
}

// notifyRemoved notifies a node that it was removed, on a connection from before.
func (s *membership) notifyRemoved(ctx context.Context, l *rpcConn) error {
	if l == nil {
		return errConnEnded
	}
	ctx, cancel := context.WithTimeout(ctx, s.node.options.Timing.Call)
	defer cancel()
	defer context.AfterFunc(s.ctx, cancel)()
	l.allowLast()
	_, err := l.ask(ctx, callRemoved, nil)
	return err
}

// Leave ends this node's membership. The leader removes it. If there has been no leader for long,
// or none is found in half of the time of ctx, the node comes to rest alone, and stays a member
// that is away for the others. If it is the only member, the cluster is deleted.
func (n *Node) Leave(ctx context.Context) error {
	ctx, cancel := n.bounded(ctx)
	defer cancel()
	s, err := n.running()
	switch {
	case err == nil && len(s.others()) == 0:
		return n.Delete(ctx)
	case err == nil:
		if err := s.leave(ctx); err != nil {
			n.log.Warn("the node leaves its cluster without the others", "error", err)
		}
	case !notBegun(err):
		return err
	}
	id, err := n.loadIdentity()
	if err != nil || id == nil { // it has learnt of its removal and left
		return err
	}
	if err := n.depart(id.UUID, reasonLeft); err != nil {
		return err
	}
	return n.awaitDeparture(ctx)
}

// leave asks the leader to remove this node.
func (s *membership) leave(ctx context.Context) error {
	id := s.id.Self
	request, err := json.Marshal(Member{NodeID: id.NodeID, Generation: id.Generation})
	if err != nil {
		return fmt.Errorf("ask to be removed: %w", err)
	}
	ctx, cancel := withHalfDeadline(ctx)
	defer cancel()
	for {
		if s.raft.State() == raft.Leader {
			s.handOver(ctx)
		}
		m, ok := s.leader()
		if ok && m.NodeID != id.NodeID {
			f, err := s.conns.ask(ctx, m, callRemove, request)
			if err == nil {
				err = f.err()
			}
			if err == nil || isRemote(err) {
				return err
			}
		}
		pause(ctx, s.node.options.Timing.Heartbeat/8)
		switch {
		case ctx.Err() != nil, s.leaderlessTooLong():
			return ErrNoLeader
		case s.ctx.Err() != nil: // it learnt of its removal before the response arrived
			return nil
		}
	}
}

// withHalfDeadline returns a context that has half of the time that is left.
func withHalfDeadline(ctx context.Context) (context.Context, context.CancelFunc) {
	return context.WithTimeout(ctx, timeLeft(ctx)/2)
}

// Delete dissolves the cluster. Each node comes to rest with its machine's data: those that can be
// reached after they have applied everything that was committed, the others when they are back.
// Only the leader can do this. When Delete returns nil, this node is at rest.
func (n *Node) Delete(ctx context.Context) error {
	ctx, cancel := n.bounded(ctx)
	defer cancel()
	s, err := n.leadingMembership(ctx)
	if err != nil {
		return err
	}
	if _, _, err := s.order(ctx, order{Op: opDissolve}); err != nil && !errors.Is(err, ErrNotClustered) {
		return fmt.Errorf("dissolve the cluster: %w", err)
	}
	return n.awaitDeparture(ctx)
}

// awaitDeparture waits until the node is at rest, or closed.
func (n *Node) awaitDeparture(ctx context.Context) error {
	for {
		n.notify()
		switch _, err := n.running(); {
		case errors.Is(err, ErrNotClustered):
			return nil
		case errors.Is(err, ErrClosed):
			return unconfirmed(err)
		}
		pause(ctx, n.options.Timing.Heartbeat/32)
		if ctx.Err() != nil {
			return unconfirmed(context.Cause(ctx))
		}
	}
}

// SetLeader transfers the leadership to another node. Only the leader can do this.
func (n *Node) SetLeader(ctx context.Context, id NodeID) error {
	ctx, cancel := n.bounded(ctx)
	defer cancel()
	s, err := n.leadingMembership(ctx)
	if err != nil {
		return err
	}
	if id == s.id.Self.NodeID {
		return nil
	}
	m, ok := s.fsm.state.Load().member(id)
	if !ok {
		return fmt.Errorf("transfer the leadership to node %d: %w", id, ErrUnknownNode)
	}
	if s.role(m) != RoleVoter {
		return fmt.Errorf("transfer the leadership to node %d: %w", id, ErrNotVoter)
	}
	want := m.server(raft.Voter)
	err = s.await(ctx, func() raft.Future { return s.raft.LeadershipTransferToServer(want.ID, want.Address) })
	if err != nil {
		return fmt.Errorf("transfer the leadership to node %d: %w", id, err)
	}
	return nil
}

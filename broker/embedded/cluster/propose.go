package cluster

import (
	"context"
	"errors"
	"time"

	"github.com/hashicorp/raft"
)

// Propose has all nodes apply a command, and waits until this one, the leader,
// has applied it. It gives the machine's answer and the index of the command.
// After ErrNotLeader and ErrNoLeader nothing has happened; after ErrUnconfirmed
// it may have happened, or still happen.
func (n *Node) Propose(ctx context.Context, command []byte) (answer any, index uint64, err error) {
	l, err := n.Lead(ctx)
	if err != nil {
		return nil, 0, err
	}
	return l.Propose(ctx, command)
}

// order carries out an order to the cluster's own state.
func (s *seat) order(ctx context.Context, o order) (m Member, index uint64, err error) {
	answer, index, err := s.propose(ctx, o.encode(), time.Time{})
	m, _ = answer.(Member)
	return m, index, err
}

// propose hands an entry to raft and waits for what the fsm makes of it. began is
// zero where it is not measured.
func (s *seat) propose(ctx context.Context, entry []byte, began time.Time) (answer any, index uint64, err error) {
	p, err := s.agenda.enter(ctx, entry, began)
	if err != nil {
		return nil, 0, err
	}
	return s.agenda.wait(ctx, p)
}

// settle begins something at raft and waits for its end, or for that of the
// context.
func (s *seat) settle(ctx context.Context, begin func() raft.Future) error {
	if !s.begin() {
		return ErrNoLeader
	}
	done := make(chan error, 1)
	go func() { // counted by begin
		defer s.proposals.Done()
		done <- begin().Error()
	}()
	select {
	case err := <-done:
		return s.translate(err)
	case <-ctx.Done():
		return unconfirmed(context.Cause(ctx))
	}
}

// translate gives an error of raft's in our words.
func (s *seat) translate(err error) error {
	switch {
	case err == nil:
		return nil
	case errors.Is(err, raft.ErrNotLeader):
		return s.notLeader()
	case errors.Is(err, raft.ErrLeadershipTransferInProgress), errors.Is(err, raft.ErrEnqueueTimeout):
		return ErrNoLeader
	}
	return unconfirmed(err)
}

// patienceOf gives how long raft may take before it begins.
func patienceOf(ctx context.Context) time.Duration {
	deadline, ok := ctx.Deadline()
	if !ok {
		return 0 // for ever
	}
	return max(time.Until(deadline), time.Millisecond)
}

// bounded gives a context an end.
func (n *Node) bounded(ctx context.Context) (context.Context, context.CancelFunc) {
	if _, ok := ctx.Deadline(); ok {
		return context.WithCancel(ctx)
	}
	return context.WithTimeout(ctx, n.options.Timing.Request)
}

// Await waits until all commands up to an index are applied here.
func (n *Node) Await(ctx context.Context, index uint64) error {
	s, err := n.place()
	if err != nil {
		return err
	}
	return s.await(ctx, index)
}

func (s *seat) await(ctx context.Context, index uint64) error {
	done := s.fsm.await(index)
	select {
	case <-done:
		return nil
	case <-ctx.Done():
		s.fsm.forget(done)
		return context.Cause(ctx)
	case <-s.ctx.Done():
		return ErrNoLeader
	}
}

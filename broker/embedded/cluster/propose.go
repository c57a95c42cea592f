package cluster

import (
	"context"
	"encoding/binary"
	"errors"
	"time"

	"github.com/hashicorp/raft"
)

// Tenure is a time during which this node leads without interruption.
type Tenure struct{ term uint64 }

// Lead gives the tenure of this node, once all that earlier leaders have
// committed is applied here. What is then read from the machine is what the next
// proposal in that tenure will meet, as long as proposals are made one after the
// other. The error is ErrNotLeader or ErrNoLeader where another node leads, or
// none.
func (n *Node) Lead(ctx context.Context) (Tenure, error) {
	s, err := n.place()
	if err != nil {
		return Tenure{}, err
	}
	ctx, cancel := n.bounded(ctx)
	defer cancel()
	return s.lead(ctx)
}

func (s *seat) lead(ctx context.Context) (Tenure, error) {
	for {
		term := s.raft.CurrentTerm()
		if s.raft.State() != raft.Leader {
			return Tenure{}, s.notLeader()
		}
		if s.tenure.Load() == term {
			return Tenure{term}, nil
		}
		if err := s.settle(ctx, func() raft.Future { return s.raft.Barrier(patienceOf(ctx)) }); err != nil {
			if errors.Is(err, ErrUnconfirmed) { // but nothing was to be done
				err = ErrNoLeader
			}
			return Tenure{}, err
		}
		if s.raft.State() == raft.Leader && s.raft.CurrentTerm() == term {
			s.tenure.Store(term)
		}
	}
}

// notLeader says who does not lead.
func (s *seat) notLeader() error {
	if _, ok := s.leader(); ok {
		return ErrNotLeader
	}
	return ErrNoLeader
}

// Confirm makes sure that the tenure has not ended before Confirm was called.
// What was read from the machine after Lead and before Confirm returns nil is as
// if it had been read by all of the cluster at once.
func (n *Node) Confirm(ctx context.Context, t Tenure) error {
	s, err := n.place()
	if err != nil {
		return err
	}
	ctx, cancel := n.bounded(ctx)
	defer cancel()
	err = s.settle(ctx, s.raft.VerifyLeader)
	switch {
	case err == nil && s.raft.CurrentTerm() == t.term:
		return nil
	case err == nil || errors.Is(err, ErrUnconfirmed):
		return s.notLeader()
	}
	return err
}

// Propose has all nodes apply a command, and waits until this one, the leader,
// has applied it. It gives the machine's answer and the index of the command.
// After ErrNotLeader and ErrNoLeader nothing has happened; after ErrUnconfirmed
// it may have happened, or still happen.
func (n *Node) Propose(ctx context.Context, command []byte) (answer any, index uint64, err error) {
	t, err := n.Lead(ctx)
	if err != nil {
		return nil, 0, err
	}
	return n.ProposeIn(ctx, t, command)
}

// ProposeIn is Propose for a command that was made from what the machine held
// during a tenure. If that has ended, the error is ErrNotLeader.
func (n *Node) ProposeIn(ctx context.Context, t Tenure, command []byte) (answer any, index uint64, err error) {
	s, err := n.place()
	if err != nil {
		return nil, 0, err
	}
	ctx, cancel := n.bounded(ctx)
	defer cancel()
	return s.propose(ctx, t.entry(command), time.Now())
}

// Begin is ProposeIn for many commands under way: it hands a command to the
// consensus, and wait gives what came of it, now or later, once or more often, or
// never. Commands are applied in the order of the calls. Begin itself waits while
// 1024 commands or 16 MiB of them are under way, at most as long as a proposal may
// take: what finds no room in that time is not begun, and fails with ErrNoLeader.
//
// What follows a command that failed may still be done, as long as the tenure
// lasts: who needs all or none ends with the first failure.
func (n *Node) Begin(t Tenure, command []byte) (wait func(ctx context.Context) (answer any, err error)) {
	failed := func(err error) func(context.Context) (any, error) {
		return func(context.Context) (any, error) { return nil, err }
	}
	s, err := n.place()
	if err != nil {
		return failed(err)
	}
	ctx, cancel := n.bounded(s.ctx)
	defer cancel()
	p, err := s.agenda.enter(ctx, t.entry(command), time.Now())
	if err != nil {
		return failed(err)
	}
	return func(ctx context.Context) (any, error) {
		answer, _, err := s.agenda.wait(ctx, p)
		return answer, err
	}
}

// entry makes an entry of the log of a command that was made during the tenure.
func (t Tenure) entry(command []byte) []byte {
	entry := make([]byte, 0, machineHeader+len(command))
	entry = append(entry, forMachine)
	entry = binary.BigEndian.AppendUint64(entry, t.term)
	return append(entry, command...)
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

package cluster

import (
	"context"
	"encoding/binary"
	"errors"
	"slices"
	"time"

	"github.com/hashicorp/raft"
)

// Leadership is a term in which this node leads its cluster. Commands that are made
// from the machine's state belong to it: they are applied only if the node leads
// without interruption from Lead until they are in the log.
type Leadership struct {
	node *Node
	term uint64
}

// Lead returns the current leadership of this node, once everything that earlier leaders have
// committed is applied here (a barrier, once in a term). A command that is made from the
// machine's state carries the term, and all nodes skip it if it is in the log of another term:
// then another leader may have changed the state. So, with one proposal after the other, a
// command may be evaluated on the leader as safely as when it is applied. The error is
// ErrNotLeader if another node leads, ErrNoLeader if no node does.
func (n *Node) Lead(ctx context.Context) (Leadership, error) {
	s, err := n.running()
	if err != nil {
		return Leadership{}, err
	}
	ctx, cancel := n.bounded(ctx)
	defer cancel()
	return s.lead(ctx)
}

func (s *membership) lead(ctx context.Context) (Leadership, error) {
	for {
		term := s.raft.CurrentTerm()
		if s.raft.State() != raft.Leader {
			return Leadership{}, s.notLeader()
		}
		if s.barrierTerm.Load() == term {
			return Leadership{s.node, term}, nil
		}
		if err := s.await(ctx, func() raft.Future { return s.raft.Barrier(timeLeft(ctx)) }); err != nil {
			if errors.Is(err, ErrUnconfirmed) { // a barrier changes nothing
				err = ErrNoLeader
			}
			return Leadership{}, err
		}
		if s.raft.State() == raft.Leader && s.raft.CurrentTerm() == term {
			s.barrierTerm.Store(term)
		}
	}
}

// notLeader returns ErrNotLeader if another node leads, else ErrNoLeader.
func (s *membership) notLeader() error {
	if _, ok := s.leader(); ok {
		return ErrNotLeader
	}
	return ErrNoLeader
}

// Term returns the term of the consensus.
func (l Leadership) Term() uint64 { return l.term }

// IsCurrent reports whether the leadership lasts, as far as this node knows. Confirm
// asks the other nodes.
func (l Leadership) IsCurrent() bool { return l.node.IsLeader() && l.node.Term() == l.term }

// Confirm verifies that the leadership had not ended when Confirm was called. What
// was read from the machine after Lead and before Confirm returns nil is
// linearizable.
func (l Leadership) Confirm(ctx context.Context) error {
	s, err := l.node.running()
	if err != nil {
		return err
	}
	ctx, cancel := l.node.bounded(ctx)
	defer cancel()
	err = s.await(ctx, s.raft.VerifyLeader)
	switch {
	case err == nil && s.raft.CurrentTerm() == l.term:
		return nil
	case err == nil || errors.Is(err, ErrUnconfirmed):
		return s.notLeader()
	}
	return err
}

// Sync is Confirm that returns once this node has applied everything that any node had applied when Sync was
// called: that was committed, and another node may apply it before this one does.
func (l Leadership) Sync(ctx context.Context) error {
	s, err := l.node.running()
	if err != nil {
		return err
	}
	ctx, cancel := l.node.bounded(ctx)
	defer cancel()
	upTo := s.raft.CommitIndex()
	upTo = min(upTo, s.log.command.Load()) // entries that are not commands never reach the machine
	if err := l.Confirm(ctx); err != nil {
		return err
	}
	return s.awaitApplied(ctx, upTo)
}

// Propose is [Node.Propose] for a command that was made from the machine's state during this
// leadership. If the leadership has ended, the error is ErrNotLeader.
func (l Leadership) Propose(ctx context.Context, command []byte) (answer any, index uint64, err error) {
	s, err := l.node.running()
	if err != nil {
		return nil, 0, err
	}
	ctx, cancel := l.node.bounded(ctx)
	defer cancel()
	return s.propose(ctx, l.entry(command), time.Now())
}

// Begin is Propose for many concurrent commands: it proposes a command, and wait returns its
// outcome. wait may be called any number of times, or never. Commands are applied in the order
// of the calls. Begin itself waits while 1024 commands or 16 MiB of them are pending, at most
// for Timing.Request; a command that cannot be proposed in that time fails with ErrNoLeader.
//
// Commands after one that failed may still be applied while the leadership lasts: a
// caller that needs all or none stops at the first failure.
func (l Leadership) Begin(command []byte) (wait func(ctx context.Context) (answer any, err error)) {
	failed := func(err error) func(context.Context) (any, error) {
		return func(context.Context) (any, error) { return nil, err }
	}
	s, err := l.node.running()
	if err != nil {
		return failed(err)
	}
	ctx, cancel := l.node.bounded(s.ctx)
	defer cancel()
	p, err := s.pending.submit(ctx, l.entry(command), time.Now())
	if err != nil {
		return failed(err)
	}
	return func(ctx context.Context) (any, error) {
		answer, _, err := s.pending.wait(ctx, p)
		return answer, err
	}
}

// entry returns the log entry of a command that belongs to the leadership.
func (l Leadership) entry(command []byte) []byte {
	entry := make([]byte, 0, machineHeader+len(command))
	entry = append(entry, forMachine)
	entry = binary.BigEndian.AppendUint64(entry, l.term)
	return append(entry, command...)
}

// handOver transfers the leadership, if this node has it, to another voter. It begins nothing
// once ctx has ended, because raft does not complete operations that it has not begun when it
// is shut down.
func (s *membership) handOver(ctx context.Context) {
	if s.raft.State() != raft.Leader || s.voters() < 2 || ctx.Err() != nil {
		return
	}
	if err := s.await(ctx, s.raft.LeadershipTransfer); err != nil {
		s.node.log.Warn("the leadership cannot be handed over", "error", err)
	}
}

// leader returns the member that leads, as far as this node knows.
func (s *membership) leader() (Member, bool) {
	addr, _ := s.raft.LeaderWithID()
	r, _, ok := parseServerAddress(addr)
	if !ok {
		return Member{}, false
	}
	m, ok := s.fsm.state.Load().member(r.id)
	return m, ok && m.Generation == r.generation
}

// observedLeader is the leader that this node knows, until it changes.
type observedLeader struct {
	Member // with the number 0 while no node leads
	since  time.Time
	ctx    context.Context // ends when the leader changes
	end    context.CancelFunc
}

func newObservedLeader(ctx context.Context, m Member) *observedLeader {
	l := &observedLeader{Member: m, since: time.Now()}
	l.ctx, l.end = context.WithCancel(ctx)
	return l
}

// observe keeps observed up to date, and calls Changed as soon as the leader or the
// members have changed.
func (s *membership) observe() {
	seen := make(chan raft.Observation, 1)
	observer := raft.NewObserver(seen, false, func(o *raft.Observation) bool {
		switch o.Data.(type) {
		case raft.LeaderObservation, raft.RaftState:
			return true
		}
		return false
	})
	s.raft.RegisterObserver(observer)
	defer s.raft.DeregisterObserver(observer)
	ticks := time.NewTicker(s.node.options.Timing.Probe)
	defer ticks.Stop()
	others := s.others()
	for s.ctx.Err() == nil {
		m, _ := s.leader()
		old, now := s.observed.Load(), s.others()
		if m != old.Member {
			s.node.log.Info("the cluster's leader changes", "leader", int(m.NodeID))
			s.observed.Store(newObservedLeader(s.ctx, m))
			old.end()
			s.notify()
		}
		if m != old.Member || !slices.Equal(others, now) {
			others = now
			s.node.options.Changed()
		}
		select {
		case <-seen:
		case <-s.changed:
		case <-ticks.C: // raft drops observations if the channel is full
		case <-s.ctx.Done():
		}
	}
}

package cluster

import (
	"context"
	"errors"
	"sync/atomic"
	"time"

	"github.com/hashicorp/raft"
)

// Bounds of the pending proposals. A further one waits, and fails with ErrNoLeader at its
// deadline.
const (
	maxPendingProposals     = 1024
	maxPendingProposalBytes = 16 << 20 // a single entry that is larger may be pending alone
)

// pendingProposals has the entries that were passed to raft, in the order in which raft completes
// them. One goroutine waits for all of them.
type pendingProposals struct {
	membership  *membership
	submitting  chan struct{}  // a lock, held while an entry is passed to raft
	queue       chan *proposal // passed to raft
	bytes       atomic.Int64   // of them
	freed       chan struct{}  // holds one entry after bytes has decreased
	raftStopped chan struct{}  // closed when raft has stopped and completes nothing any more
}

// proposal is an entry that was passed to raft.
type proposal struct {
	future raft.ApplyFuture
	size   int64
	began  time.Time // zero if it is not measured

	done   chan struct{} // closed once the fields below are set
	answer any
	index  uint64
	err    error
}

func newPendingProposals(s *membership) *pendingProposals {
	return &pendingProposals{
		membership: s, submitting: make(chan struct{}, 1), queue: make(chan *proposal, maxPendingProposals),
		freed: make(chan struct{}, 1), raftStopped: make(chan struct{}),
	}
}

// submit passes an entry to raft. Entries complete in the order of the calls. It waits while too
// many are pending; after an error nothing was begun.
func (a *pendingProposals) submit(ctx context.Context, entry []byte, began time.Time) (*proposal, error) {
	if !a.membership.beginProposal() {
		return nil, ErrNoLeader
	}
	p, err := a.handOver(ctx, entry, began)
	if err != nil {
		a.membership.proposals.Done()
	}
	return p, err
}

func (a *pendingProposals) handOver(ctx context.Context, entry []byte, began time.Time) (*proposal, error) {
	select {
	case a.submitting <- struct{}{}:
		defer func() { <-a.submitting }()
	case <-ctx.Done():
		return nil, overloaded(ctx)
	}
	if err := a.awaitCapacity(ctx, int64(len(entry))); err != nil {
		return nil, err
	}
	p := &proposal{size: int64(len(entry)), began: began, done: make(chan struct{})}
	p.future = a.membership.raft.Apply(entry, timeLeft(ctx))
	a.bytes.Add(p.size)
	a.queue <- p // awaitCapacity ensures that it does not block
	return p, nil
}

// awaitCapacity waits until an entry of a size may be passed to raft. The caller holds
// submitting.
func (a *pendingProposals) awaitCapacity(ctx context.Context, size int64) error {
	for {
		under := a.bytes.Load()
		if len(a.queue) < cap(a.queue) && (under == 0 || under+size <= maxPendingProposalBytes) {
			return nil
		}
		select {
		case <-a.freed:
		case <-ctx.Done():
			return overloaded(ctx)
		}
	}
}

// run completes proposals until raft has stopped. Raft may stop without completing all, if its
// disk or the machine hang; then the callers of wait return.
func (a *pendingProposals) run() {
	for {
		select {
		case p := <-a.queue:
			a.complete(p)
		case <-a.raftStopped:
			a.drop()
			return
		}
	}
}

// drop removes the queued proposals, so that awaitProposals ends.
func (a *pendingProposals) drop() {
	for {
		select {
		case <-a.queue:
			a.membership.proposals.Done()
		default:
			return
		}
	}
}

// complete waits for the oldest proposal.
func (a *pendingProposals) complete(p *proposal) {
	defer a.membership.proposals.Done()
	if err := p.future.Error(); err != nil {
		p.err = a.membership.translate(err)
	} else {
		o, _ := p.future.Response().(outcome)
		p.answer, p.index, p.err = o.answer, p.future.Index(), o.err
	}
	p.future = nil // and with it the entry
	if n := a.membership.node; p.err == nil && !p.began.IsZero() {
		n.figures.applied.Observe(since(time.Now(), p.began))
	}
	close(p.done)
	a.bytes.Add(-p.size)
	notify(a.freed)
}

// wait waits for the outcome of a proposal.
func (a *pendingProposals) wait(ctx context.Context, p *proposal) (answer any, index uint64, err error) {
	select {
	case <-p.done:
		return p.answer, p.index, p.err
	default:
	}
	select {
	case <-p.done:
		return p.answer, p.index, p.err
	case <-a.raftStopped:
		return nil, 0, unconfirmed(ErrClosed)
	case <-ctx.Done():
		return nil, 0, unconfirmed(context.Cause(ctx))
	}
}

// Propose replicates a command, and waits until this node, the leader, has applied it. It returns
// the machine's result and the index of the command. After ErrNotLeader and ErrNoLeader nothing
// has happened; after ErrUnconfirmed the command may have been applied, or may still be.
func (n *Node) Propose(ctx context.Context, command []byte) (answer any, index uint64, err error) {
	l, err := n.Lead(ctx)
	if err != nil {
		return nil, 0, err
	}
	return l.Propose(ctx, command)
}

// order proposes an order to the cluster's own state.
func (s *membership) order(ctx context.Context, o order) (m Member, index uint64, err error) {
	answer, index, err := s.propose(ctx, o.encode(), time.Time{})
	m, _ = answer.(Member)
	return m, index, err
}

// propose passes an entry to raft and waits until it is applied. began is zero if the latency is
// not measured.
func (s *membership) propose(ctx context.Context, entry []byte, began time.Time) (answer any, index uint64, err error) {
	p, err := s.pending.submit(ctx, entry, began)
	if err != nil {
		return nil, 0, err
	}
	return s.pending.wait(ctx, p)
}

// await begins an operation of raft and waits until it or the context ends.
func (s *membership) await(ctx context.Context, begin func() raft.Future) error {
	if !s.beginProposal() {
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

// translate returns the error of this package for one of raft's.
func (s *membership) translate(err error) error {
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

// timeLeft returns how long raft may wait before it begins, 0 for no limit.
func timeLeft(ctx context.Context) time.Duration {
	deadline, ok := ctx.Deadline()
	if !ok {
		return 0 // for ever
	}
	return max(time.Until(deadline), time.Millisecond)
}

// bounded returns a context with a deadline, by default Timing.Request.
func (n *Node) bounded(ctx context.Context) (context.Context, context.CancelFunc) {
	if _, ok := ctx.Deadline(); ok {
		return context.WithCancel(ctx)
	}
	return context.WithTimeout(ctx, n.options.Timing.Request)
}

// Await waits until all commands up to an index are applied here.
func (n *Node) Await(ctx context.Context, index uint64) error {
	s, err := n.running()
	if err != nil {
		return err
	}
	return s.awaitApplied(ctx, index)
}

func (s *membership) awaitApplied(ctx context.Context, index uint64) error {
	done := s.fsm.await(index)
	select {
	case <-done:
		return nil
	case <-ctx.Done():
		s.fsm.dropWaiter(done)
		return context.Cause(ctx)
	case <-s.ctx.Done():
		return ErrNoLeader
	}
}

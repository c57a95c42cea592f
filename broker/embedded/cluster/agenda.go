package cluster

import (
	"context"
	"sync/atomic"
	"time"

	"github.com/hashicorp/raft"
)

// Bounds of what is in raft's hands. Who has one more to give waits until there is
// room, and gives up with ErrNoLeader when its time is over.
const (
	maxUnderway      = 1024
	maxUnderwayBytes = 16 << 20 // a single entry may have more, alone
)

// agenda holds the entries in raft's hands, in the order in which they were given
// to it, which is that in which it settles them. One goroutine sees to that for
// all of them.
type agenda struct {
	seat     *seat
	entering chan struct{}  // holds one entry while somebody gives raft something
	queue    chan *proposal // in raft's hands
	bytes    atomic.Int64   // of them
	freed    chan struct{}  // holds one entry after bytes has become less
	gone     chan struct{}  // closed when raft has ended and settles nothing any more
}

// proposal is an entry that was given to raft.
type proposal struct {
	future raft.ApplyFuture
	size   int64
	began  time.Time // zero where it is not measured

	done   chan struct{} // closed once the fields below are set
	answer any
	index  uint64
	err    error
}

func newAgenda(s *seat) *agenda {
	return &agenda{
		seat: s, entering: make(chan struct{}, 1), queue: make(chan *proposal, maxUnderway),
		freed: make(chan struct{}, 1), gone: make(chan struct{}),
	}
}

// enter gives raft an entry. Calls that follow each other are settled in that
// order. It waits while raft has too much in hands; its error means that nothing
// was begun.
func (a *agenda) enter(ctx context.Context, entry []byte, began time.Time) (*proposal, error) {
	if !a.seat.begin() {
		return nil, ErrNoLeader
	}
	p, err := a.give(ctx, entry, began)
	if err != nil {
		a.seat.proposals.Done()
	}
	return p, err
}

func (a *agenda) give(ctx context.Context, entry []byte, began time.Time) (*proposal, error) {
	select {
	case a.entering <- struct{}{}:
		defer func() { <-a.entering }()
	case <-ctx.Done():
		return nil, overloaded(ctx)
	}
	if err := a.room(ctx, int64(len(entry))); err != nil {
		return nil, err
	}
	p := &proposal{size: int64(len(entry)), began: began, done: make(chan struct{})}
	p.future = a.seat.raft.Apply(entry, patienceOf(ctx))
	a.bytes.Add(p.size)
	a.queue <- p // room has seen to that
	return p, nil
}

// room waits until raft may have an entry of some size in hands, beside the
// others. The caller is entering.
func (a *agenda) room(ctx context.Context, size int64) error {
	for {
		under := a.bytes.Load()
		if len(a.queue) < cap(a.queue) && (under == 0 || under+size <= maxUnderwayBytes) {
			return nil
		}
		select {
		case <-a.freed:
		case <-ctx.Done():
			return overloaded(ctx)
		}
	}
}

// run settles what is in raft's hands until raft has ended. What raft then still
// had, it settles never; those who wait do so no more.
func (a *agenda) run() {
	for {
		select {
		case p := <-a.queue:
			a.settle(p)
		case <-a.gone:
			a.release()
			return
		}
	}
}

// release counts out what is still queued, so that seat.finish ends.
func (a *agenda) release() {
	for {
		select {
		case <-a.queue:
			a.seat.proposals.Done()
		default:
			return
		}
	}
}

// settle waits for the end of what raft has had for the longest time.
func (a *agenda) settle(p *proposal) {
	defer a.seat.proposals.Done()
	if err := p.future.Error(); err != nil {
		p.err = a.seat.translate(err)
	} else {
		o, _ := p.future.Response().(outcome)
		p.answer, p.index, p.err = o.answer, p.future.Index(), o.err
	}
	p.future = nil // and with it the entry
	if n := a.seat.node; p.err == nil && !p.began.IsZero() {
		n.figures.applied.observe(since(time.Now(), p.began))
	}
	close(p.done)
	a.bytes.Add(-p.size)
	poke(a.freed)
}

// wait waits for what comes of a proposal.
func (a *agenda) wait(ctx context.Context, p *proposal) (answer any, index uint64, err error) {
	select {
	case <-p.done:
		return p.answer, p.index, p.err
	default:
	}
	select {
	case <-p.done:
		return p.answer, p.index, p.err
	case <-a.gone:
		return nil, 0, unconfirmed(ErrClosed)
	case <-ctx.Done():
		return nil, 0, unconfirmed(context.Cause(ctx))
	}
}

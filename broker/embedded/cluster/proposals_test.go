package cluster

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/hashicorp/raft"

	"signalbox/scripts/suite"
)

// TestBegin proposes many commands concurrently, which are applied in order.
func TestBegin(t *testing.T) {
	t.Parallel()
	f := newFleet(t).formWith(calm, 1, 2, 3)
	l := f.leader()
	leadership, err := l.node.Lead(within(t, suite.HangLimit))
	must(t, err)
	before := l.node.Figures().Applied.Count
	const many = 500
	type waiting func(context.Context) (any, error)
	var waits []waiting
	for i := range many {
		waits = append(waits, leadership.Begin(write{"k", fmt.Sprint(i)}.encode()))
	}
	for i, wait := range waits {
		if i%3 == 0 {
			continue // wait need not be called
		}
		answer, err := wait(within(t, suite.HangLimit))
		if want := fmt.Sprint(i - 1); err != nil || answer != want {
			t.Fatalf("command %d replaced %v, %v, want %s", i, answer, err, want)
		}
	}
	last := waits[many-1]
	if again, err := last(within(t, suite.HangLimit)); err != nil || again != fmt.Sprint(many-2) {
		t.Errorf("asked again: %v, %v", again, err)
	}
	f.agree(map[string]string{"k": fmt.Sprint(many - 1)})
	if got := l.node.Figures().Applied.Count - before; got < many {
		t.Errorf("%d commands were measured, want %d", got, many)
	}
}

// gated is a register that applies nothing before its gate is opened.
type gated struct {
	*register
	gate chan struct{}
}

func (g gated) Apply(index uint64, command []byte) any {
	<-g.gate
	return g.register.Apply(index, command)
}

// TestBeginIsBounded checks that Begin waits while too much is pending, and refuses commands at
// their deadline.
func TestBeginIsBounded(t *testing.T) {
	t.Parallel()
	f, gate := newFleet(t), make(chan struct{})
	n := f.start(1, func(o *Options) {
		o.Timing.Request = time.Second // for which the last one waits
		o.Machine = gated{o.Machine.(*register), gate}
	}).node
	_, err := n.Create(within(t, suite.HangLimit), spec(1, 1))
	must(t, err)
	leadership, err := n.Lead(within(t, suite.HangLimit))
	must(t, err)
	command := write{"k", strings.Repeat("x", maxPendingProposalBytes/4)}.encode()
	var waits []func(context.Context) (any, error)
	for range 4 {
		waits = append(waits, leadership.Begin(command))
	}
	for i, want := range []error{ErrUnconfirmed, ErrUnconfirmed, ErrUnconfirmed, ErrNoLeader} {
		if _, err := waits[i](within(t, time.Millisecond)); !errors.Is(err, want) {
			t.Errorf("command %d: got %v, want %v", i, err, want)
		}
	}
	close(gate)
	for i := range 3 {
		if _, err := waits[i](within(t, suite.HangLimit)); err != nil {
			t.Errorf("command %d: %v", i, err)
		}
	}
	if _, err := leadership.Begin(command)(within(t, suite.HangLimit)); err != nil {
		t.Errorf("there is room, and none was found: %v", err)
	}
}

// TestBeginWithoutLeadership refuses commands of a leadership that has ended, and commands without
// a leader.
func TestBeginWithoutLeadership(t *testing.T) {
	t.Parallel()
	f := newFleet(t).formWith(calm, 1, 2, 3)
	l, other := f.leader(), f.follower()
	leadership, err := l.node.Lead(within(t, suite.HangLimit))
	must(t, err)
	if _, err := (Leadership{other.node, leadership.term}).Begin(nil)(within(t, suite.HangLimit)); !errors.Is(err, ErrNotLeader) {
		t.Errorf("got %v, want %v", err, ErrNotLeader)
	}
	must(t, l.node.SetLeader(within(t, suite.HangLimit), other.id))
	eventually(t, func() error {
		if _, err := leadership.Begin(write{"k", "v"}.encode())(within(t, suite.HangLimit)); !errors.Is(err, ErrNotLeader) {
			return fmt.Errorf("got %w, want %w", err, ErrNotLeader)
		}
		return nil
	})
	l.close()
	if _, err := (Leadership{node: other.node}).Begin(nil)(within(t, suite.HangLimit)); err == nil {
		t.Error("a command of no leadership is applied")
	}
}

// failed is a proposal of a raft that was shut down.
type failed struct{ raft.ApplyFuture }

func (failed) Error() error { return raft.ErrRaftShutdown }

// TestProposalsEnd has no proposal counted any more when raft has ended, whether or not it
// was waited for by then.
func TestProposalsEnd(t *testing.T) {
	t.Parallel()
	s := &membership{}
	a := newPendingProposals(s)
	for range 64 {
		s.proposals.Add(1)
		a.queue <- &proposal{future: failed{}, done: make(chan struct{})}
	}
	close(a.raftStopped)
	a.run()
	s.proposals.Wait()
}

package cluster

import (
	"bytes"
	"context"
	"errors"
	"flag"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/hashicorp/raft"

	"signalbox/scripts/suite"
)

// rounds is how often the fail-over is measured.
var rounds = flag.Int("rounds", 3, "how often a leader is killed to measure the time without one")

// TestFailOver kills leaders and measures how long it takes until a change is
// acknowledged again, with the timing of the product.
func TestFailOver(t *testing.T) {
	t.Parallel()
	f := newFleet(t).formWith(usual, 1, 2, 3)
	var all []time.Duration
	for i := range *rounds {
		killed := f.leader()
		by := f.nodes[1+killed.id%3]
		killed.kill()
		began := time.Now()
		eventually(t, func() error { // one that was on its way to the leader is not known to be done
			_, err := by.node.Forward(within(t, suite.HangLimit), write{"k", fmt.Sprint(i)}.encode())
			return err
		})
		all = append(all, time.Since(began).Round(time.Millisecond))
		f.start(killed.id, usual)
		f.settled(3)
	}
	slices.Sort(all)
	t.Logf("until a change was acknowledged after the leader was killed: %v", all)
	most := 3 * time.Second
	if *rounds < 10 { // it is not measured: other tests take the processors
		most = suite.HangLimit
	}
	if longest := all[len(all)-1]; longest > most {
		t.Errorf("it took %v", longest)
	}
}

// TestFailedLeader kills the leader, which refuses connections then: the others do not wait for the
// heartbeat timeout, and the next leader has every change that was acknowledged.
func TestFailedLeader(t *testing.T) {
	t.Parallel()
	f := newFleet(t).formWith(func(o *Options) {
		usual(o)
		o.Timing.Heartbeat, o.Timing.Election, o.Timing.Lease = suite.HangLimit, suite.HangLimit, suite.HangLimit
	}, 1, 2, 3)
	killed := f.leader()
	_, err := killed.node.Forward(within(t, suite.HangLimit), write{"k", "before"}.encode())
	must(t, err)
	killed.kill()
	began := time.Now()
	for _, id := range f.others(killed.id) {
		eventually(t, func() error {
			_, err := f.nodes[id].node.Forward(within(t, suite.HangLimit), write{fmt.Sprint("by ", id), "after"}.encode())
			return err
		})
		if got := f.nodes[id].register.get("k"); got != "before" {
			t.Errorf("node %d has %q, want what was acknowledged", id, got)
		}
	}
	if took := time.Since(began); took > suite.HangLimit/2 {
		t.Errorf("a change was acknowledged after %v", took)
	}
}

// wantRefused has a change refused, soon and because there is no leader.
func (s *station) wantRefused(t *testing.T, request []byte) {
	t.Helper()
	began := time.Now()
	eventually(t, func() error { // one may have been on its way
		if _, err := s.node.Forward(within(t, suite.HangLimit), request); !errors.Is(err, ErrNoLeader) {
			return fmt.Errorf("got %w, want %w", err, ErrNoLeader)
		}
		return nil
	})
	if took := time.Since(began); took > suite.HangLimit/2 {
		t.Errorf("it was refused after %v", took)
	}
}

// TestNoMajority refuses changes soon without a majority, with the nodes that are missing.
func TestNoMajority(t *testing.T) {
	t.Parallel()
	f := newFleet(t).formWith(func(o *Options) { o.Timing.NoLeader = 300 * time.Millisecond }, 1, 2, 3)
	last := f.follower()
	for _, id := range f.others(last.id) {
		f.nodes[id].kill()
	}
	request := write{"k", "v"}.encode()
	last.wantRefused(t, request)
	eventually(t, func() error {
		missing := f.others(last.id)
		slices.Sort(missing)
		want := fmt.Sprintf("of its 3 nodes, %d, %d cannot be reached", missing[0], missing[1])
		_, err := last.node.Forward(within(t, suite.HangLimit), request)
		if got := fmt.Sprint(err); !strings.Contains(got, want) {
			return fmt.Errorf("it says %q", got)
		}
		return nil
	})
}

// TestNoMajorityAtOnce refuses changes although a leader could be waited for, since too few nodes
// respond to elect one. With a majority again, it elects one.
func TestNoMajorityAtOnce(t *testing.T) {
	t.Parallel()
	f := newFleet(t).formWith(func(o *Options) {
		usual(o)
		o.Timing.NoLeader = suite.HangLimit
	}, 1, 2, 3)
	last := f.follower()
	others := f.others(last.id)
	for _, id := range others {
		f.nodes[id].kill()
	}
	request := write{"k", "v"}.encode()
	last.wantRefused(t, request)
	f.start(others[0], usual)
	eventually(t, func() error {
		_, err := last.node.Forward(within(t, suite.HangLimit), request)
		return err
	})
}

// TestCloseWithoutMajority closes a leader that has lost its majority and has not noticed yet, while
// a proposal is pending: Close waits no longer than its context lasts.
func TestCloseWithoutMajority(t *testing.T) {
	t.Parallel()
	f := newFleet(t).formWith(func(o *Options) {
		usual(o)
		o.Timing.Heartbeat, o.Timing.Lease = suite.HangLimit, suite.HangLimit
	}, 1, 2)
	l := f.leader()
	f.nodes[3-l.id].kill()
	outcome, command := make(chan error, 1), write{"k", "v"}.encode()
	go func() {
		_, _, err := l.node.Propose(within(t, 4*suite.HangLimit), command)
		outcome <- err
	}()
	eventually(t, func() error { return isProposed(l.node, command) })
	ended, end := context.WithCancel(context.Background())
	end()
	began := time.Now()
	if err := l.node.Close(ended); err != nil {
		t.Errorf("close: %v", err)
	}
	if took := time.Since(began); took > suite.HangLimit {
		t.Errorf("it took %v", took)
	}
	if err := <-outcome; !errors.Is(err, ErrUnconfirmed) {
		t.Errorf("the proposal ended with %v, want %v", err, ErrUnconfirmed)
	}
}

// isProposed returns an error unless the node's log has a command that is not committed. Other
// entries may be: nodes exchange their keys after they joined.
func isProposed(n *Node, command []byte) error {
	r := n.membership.Load().raft
	for i := r.CommitIndex() + 1; i <= r.LastIndex(); i++ {
		var entry raft.Log
		if err := n.store.GetLog(i, &entry); err != nil {
			return err
		}
		if bytes.Contains(entry.Data, command) {
			return nil
		}
	}
	return errors.New("the command is not proposed yet")
}

// TestForwardLeavesDeadLeader checks that requests to a leader that no longer responds end soon after
// another node leads, and that later ones go to that node.
func TestForwardLeavesDeadLeader(t *testing.T) {
	t.Parallel()
	f := newFleet(t)
	request := write{"k", "w"}.encode()
	serving, cut := make(chan *station, 3), make(chan struct{})
	f.formWith(func(o *Options) {
		serve := o.Serve
		id := NodeID(len(f.nodes) + 1)
		o.Serve = func(ctx context.Context, from NodeID, r []byte) ([]byte, error) {
			if bytes.Equal(r, request) {
				serving <- f.nodes[id]
				<-cut
			}
			return serve(ctx, from, r)
		}
	}, 1, 2, 3)
	by := f.follower()
	by.put(t, "k", "v") // there is a connection
	ended := make(chan error, 1)
	go func() {
		_, err := by.node.Forward(within(t, suite.HangLimit), request)
		ended <- err
	}()
	old := <-serving
	f.network.isolate(old.id)
	began := time.Now()
	close(cut)
	if err := <-ended; !errors.Is(err, ErrUnconfirmed) {
		t.Errorf("got %v, want %v", err, ErrUnconfirmed)
	}
	if took := time.Since(began); took > suite.HangLimit/2 {
		t.Errorf("it was given up after %v", took)
	}
	by.put(t, "k", "x")
	f.network.mend(old.id)
	f.settled(3)
	f.agree(map[string]string{"k": "x"})
}

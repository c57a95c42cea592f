package cluster

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"signalbox/scripts/suite"
)

// load writes through nodes until it is stopped, and records what was acknowledged.
type load struct {
	stop context.CancelFunc
	wg   sync.WaitGroup

	mu           sync.Mutex
	acknowledged map[string]string
	refused      atomic.Int64
}

// press writes numbered values through all running nodes of a fleet.
func (f *fleet) press(writers int) *load {
	ctx, stop := context.WithCancel(context.Background())
	l := &load{stop: stop, acknowledged: map[string]string{}}
	for w := range writers {
		l.wg.Go(func() {
			for i := 0; ctx.Err() == nil; i++ {
				n := f.network.at(NodeID(1 + (w+i)%3))
				if n == nil {
					pause(ctx, time.Millisecond)
					continue
				}
				l.write(ctx, n, fmt.Sprint("w", w), fmt.Sprint("w", w, "/", i))
			}
		})
	}
	f.t.Cleanup(func() { l.end() })
	return l
}

// write writes one value under a key of its own.
func (l *load) write(ctx context.Context, n *Node, value, key string) {
	ctx, cancel := context.WithTimeout(ctx, 3*time.Second)
	defer cancel()
	if _, err := n.Forward(ctx, write{key, value}.encode()); err != nil {
		l.refused.Add(1)
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.acknowledged[key] = value
}

func (l *load) count() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.acknowledged)
}

// more waits until so many more writes were acknowledged.
func (l *load) more(t testing.TB, n int) {
	t.Helper()
	from := l.count()
	eventually(t, func() error {
		if got := l.count() - from; got < n {
			return fmt.Errorf("%d writes were acknowledged, want %d", got, n)
		}
		return nil
	})
}

func (l *load) end() map[string]string {
	l.stop()
	l.wg.Wait()
	return l.acknowledged
}

// TestLeaderKilled kills the leader under load, and restarts it.
func TestLeaderKilled(t *testing.T) {
	t.Parallel()
	f := newFleet(t).form(1, 2, 3)
	l := f.press(4)
	l.more(t, 50)
	killed := f.leader()
	killed.kill()
	began := time.Now()
	l.more(t, 1)
	took := time.Since(began)
	l.more(t, 50)
	f.start(killed.id)
	f.settled(3)
	l.more(t, 50)
	all := l.end()
	f.agree(all)
	t.Logf("%d writes acknowledged, %d not; %v until the first one after the leader was killed", len(all), l.refused.Load(), took)
}

// TestFollowerKilled kills a follower under load, and restarts it.
func TestFollowerKilled(t *testing.T) {
	t.Parallel()
	f := newFleet(t).form(1, 2, 3)
	l := f.press(4)
	l.more(t, 50)
	killed := f.follower()
	killed.kill()
	l.more(t, 50)
	f.start(killed.id)
	f.settled(3)
	f.agree(l.end())
}

// TestLeaderCutOff isolates the leader under load. It stops leading, and acknowledges nothing.
func TestLeaderCutOff(t *testing.T) {
	t.Parallel()
	f := newFleet(t).formWith(func(o *Options) { o.Timing.NoLeader = time.Second }, 1, 2, 3)
	l := f.press(6)
	l.more(t, 50)
	old := f.leader()
	f.network.isolate(old.id)
	eventually(t, func() error {
		if id, ok := old.node.Leader(); ok || old.node.IsLeader() {
			return fmt.Errorf("node %d still leads, as who is cut off believes", id)
		}
		return nil
	})
	if _, err := old.node.Forward(within(t, 500*time.Millisecond), write{"split", "brain"}.encode()); err == nil {
		t.Error("a write is acknowledged by one of three")
	}
	var others []NodeID
	for id := range f.nodes {
		if id != old.id {
			others = append(others, id)
		}
	}
	f.leader(others...)
	l.more(t, 50)
	f.network.mend(old.id)
	f.settled(3)
	l.more(t, 50)
	f.agree(l.end())
	if got := old.register.get("split"); got != "" {
		t.Errorf("what was refused as not begun is there: %q", got)
	}
}

// TestMajorityLost acknowledges nothing while two of three nodes are down, returns the status, and
// continues when one is back.
func TestMajorityLost(t *testing.T) {
	t.Parallel()
	f := newFleet(t).form(1, 2, 3)
	f.nodes[1].put(t, "k", "v")
	f.nodes[2].kill()
	f.nodes[3].kill()
	if _, err := f.nodes[1].node.Forward(within(t, time.Second), write{"k", "w"}.encode()); err == nil {
		t.Error("a write is acknowledged by one of three")
	}
	eventually(t, func() error {
		st := f.nodes[1].node.Status()
		if len(st.Nodes) != 3 || st.State == StateLeader || st.ErrMsg == "" {
			return fmt.Errorf("status %+v", st)
		}
		return nil
	})
	f.start(2)
	f.nodes[1].put(t, "l", "x")
	f.agree(map[string]string{"l": "x"})
}

// TestCampaignSnapshotUnderLoad compacts the log so that a node that was away needs a
// snapshot.
func TestCampaignSnapshotUnderLoad(t *testing.T) {
	t.Parallel()
	f := newFleet(t)
	small := func(o *Options) {
		o.Timing.SnapshotEvery, o.Timing.SnapshotAfter, o.Timing.Trailing = 20*time.Millisecond, 40, 10
	}
	for _, id := range []NodeID{1, 2, 3} {
		f.start(id, small)
	}
	invitations, err := f.nodes[1].node.Create(within(t, suite.HangLimit), spec(1, 1, 2, 3))
	must(t, err)
	for _, i := range invitations {
		must(t, f.nodes[i.NodeID].node.Join(within(t, suite.HangLimit), spec(i.NodeID, 1, 2, 3), i))
	}
	f.settled(3)
	l := f.press(4)
	l.more(t, 20)
	away := f.follower()
	away.kill()
	last := f.leader().node.membership.Load().raft.LastIndex()
	l.more(t, 300)
	eventually(t, func() error {
		for _, id := range f.others(away.id) {
			first, err := f.nodes[id].node.store.FirstIndex()
			if must(t, err); first <= last+1 {
				return fmt.Errorf("the log of node %d begins with entry %d, want one after %d", id, first, last+1)
			}
		}
		return nil
	})
	back := f.start(away.id, small)
	f.settled(3)
	l.more(t, 20)
	f.agree(l.end())
	if back.register.restored() == 0 {
		t.Error("the node caught up without a snapshot: the log was not compacted")
	}
	back.close()
	back = f.start(back.id, small)
	f.settled(3)
	if back.register.restored() > 0 {
		t.Error("a snapshot is restored that the machine has already")
	}
}

// TestCampaignRollingRestart restarts all nodes in turn under load. Nearly nothing is refused
// meanwhile, and nothing is lost.
func TestCampaignRollingRestart(t *testing.T) {
	t.Parallel()
	f := newFleet(t).form(1, 2, 3)
	l := f.press(4)
	for _, id := range []NodeID{1, 2, 3} {
		l.more(t, 30)
		f.nodes[id].close()
		f.start(id)
		f.settled(3)
	}
	all := l.end()
	f.agree(all)
	t.Logf("%d writes acknowledged, %d not", len(all), l.refused.Load())
}

// TestCampaignMachineStops suspends and resumes the node of a machine that cannot apply, while the
// others continue.
func TestCampaignMachineStops(t *testing.T) {
	t.Parallel()
	f := newFleet(t).form(1, 2, 3)
	full := errors.New("the disk is full")
	for _, s := range []*station{f.follower(), f.leader()} {
		s.register.breaks(full)
		eventually(t, func() error {
			s.node.Forward(within(t, 200*time.Millisecond), write{"during", "x"}.encode()) //nolint:errcheck // it need not be done
			if st := s.node.Status(); st.State != StateUnavailable || st.ErrMsg == "" {
				return fmt.Errorf("status %+v", st)
			}
			return nil
		})
		s.register.breaks(nil)
		f.settled(3)
		s.put(t, "after", fmt.Sprint(s.id))
		f.agree(map[string]string{"during": "x", "after": fmt.Sprint(s.id)})
	}
}

// TestLeadershipEnds refuses commands of a leadership that has ended, even if the same node leads
// again.
func TestLeadershipEnds(t *testing.T) {
	t.Parallel()
	f := newFleet(t).formWith(calm, 1, 2, 3)
	l := f.leader()
	leadership, err := l.node.Lead(within(t, suite.HangLimit))
	must(t, err)
	other := f.follower()
	must(t, l.node.SetLeader(within(t, suite.HangLimit), other.id))
	other.put(t, "k", "of the other")
	eventually(t, func() error {
		if f.leader() != l {
			return f.leader().node.SetLeader(within(t, suite.HangLimit), l.id)
		}
		return nil
	})
	eventually(t, func() error { // ErrNoLeader while it settles in
		_, _, err := leadership.Propose(within(t, suite.HangLimit), write{"k", "stale"}.encode())
		if !errors.Is(err, ErrNotLeader) {
			return fmt.Errorf("got %w, want %w", err, ErrNotLeader)
		}
		return nil
	})
	if err := leadership.Confirm(within(t, suite.HangLimit)); err == nil {
		t.Error("a leadership that has ended is confirmed")
	}
	f.agree(map[string]string{"k": "of the other"})
}

// TestClosedWhileAwaiting returns ErrUnconfirmed for a request that was done if the node that
// forwarded it closes before it knows that.
func TestClosedWhileAwaiting(t *testing.T) {
	t.Parallel()
	f, gate := newFleet(t), make(chan struct{})
	close(gate)
	gates := map[NodeID]*gated{}
	f.formWith(func(o *Options) {
		calm(o)
		g := &gated{o.Machine.(*register), gate}
		gates[NodeID(len(gates)+1)], o.Machine = g, g
	}, 1, 2, 3)
	l, by := f.leader(), f.follower()
	shut := make(chan struct{})
	gates[by.id].gate = shut
	var wg sync.WaitGroup
	var got error
	wg.Go(func() { _, got = by.node.Forward(within(t, suite.HangLimit), write{"k", "v"}.encode()) })
	eventually(t, func() error {
		if l.register.get("k") != "v" {
			return errors.New("it is not done yet")
		}
		return nil
	})
	closing := make(chan struct{})
	go func() {
		defer close(closing)
		by.kill()
	}()
	wg.Wait()
	close(shut)
	<-closing
	if !errors.Is(got, ErrUnconfirmed) {
		t.Errorf("got %v, want %v", got, ErrUnconfirmed)
	}
}

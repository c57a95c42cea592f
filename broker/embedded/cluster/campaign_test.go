package cluster

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/hashicorp/raft"

	"signalbox/scripts/suite"
)

// campaign writes at each of three nodes, by clients that stay with their node, and records the
// outcomes. The nodes have nearly the timing of the product.
type campaign struct {
	*fleet
	stop context.CancelFunc
	wg   sync.WaitGroup
	done map[NodeID]*atomic.Int64 // acknowledged at a node

	mu                    sync.Mutex // guards the fields below
	acknowledged, refused map[string]string
	last                  map[NodeID]time.Time // begin of the last write that was acknowledged at a node
	unconfirmed           int
	slowest               time.Duration // of the acknowledged writes
}

func newCampaign(t testing.TB, tune func(NodeID, *Options)) *campaign {
	t.Helper()
	c := &campaign{fleet: newFleet(t), done: map[NodeID]*atomic.Int64{}, acknowledged: map[string]string{}, refused: map[string]string{}, last: map[NodeID]time.Time{}}
	id := NodeID(0)
	c.formWith(func(o *Options) {
		usual(o)
		o.Timing.NoLeader = 0
		id++
		if tune != nil {
			tune(id, o)
		}
	}, 1, 2, 3)
	ctx, stop := context.WithCancel(context.Background())
	c.stop = stop
	for id := NodeID(1); id <= 3; id++ {
		c.done[id] = new(atomic.Int64)
	}
	for id := NodeID(1); id <= 3; id++ {
		for w := range 2 {
			c.wg.Go(func() {
				for i := 0; ctx.Err() == nil; i++ {
					c.write(ctx, id, fmt.Sprintf("%d/%d/%d", id, w, i))
				}
			})
		}
	}
	t.Cleanup(func() { c.end() })
	return c
}

// write writes one value under a key of its own.
func (c *campaign) write(ctx context.Context, id NodeID, key string) {
	n := c.network.at(id)
	if n == nil {
		pause(ctx, time.Millisecond)
		return
	}
	asking, cancel := context.WithTimeout(context.WithoutCancel(ctx), 8*time.Second)
	defer cancel()
	began := time.Now()
	_, err := n.Forward(asking, write{key, "x"}.encode())
	took := time.Since(began)
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case err == nil:
		c.acknowledged[key] = "x"
		c.slowest = max(c.slowest, took)
		if began.After(c.last[id]) {
			c.last[id] = began
		}
		c.done[id].Add(1)
	case errors.Is(err, ErrUnconfirmed):
		c.unconfirmed++
	default:
		c.refused[key] = "x"
	}
}

// end ends the writing.
func (c *campaign) end() {
	c.stop()
	c.wg.Wait()
}

// again waits until so many more writes were acknowledged at nodes, and returns how long that
// took.
func (c *campaign) again(n int64, at ...NodeID) time.Duration {
	c.t.Helper()
	began := time.Now()
	for _, id := range at {
		from := c.done[id].Load()
		eventually(c.t, func() error {
			if got := c.done[id].Load() - from; got < n {
				return fmt.Errorf("node %d acknowledged %d writes, want %d", id, got, n)
			}
			return nil
		})
	}
	return time.Since(began).Round(time.Millisecond)
}

// check compares all nodes with what was acknowledged and refused, and logs the result.
func (c *campaign) check(what string) {
	c.t.Helper()
	c.end()
	c.settled(3)
	c.agree(nil)
	held := c.leader().register.all()
	lost, wrong := 0, 0
	for key := range c.acknowledged {
		if held[key] == "" {
			lost++
		}
	}
	for key := range c.refused {
		if held[key] != "" {
			wrong++
		}
	}
	if lost > 0 || wrong > 0 {
		c.t.Errorf("%d acknowledged writes are lost, %d refused ones are there", lost, wrong)
	}
	c.t.Logf("%s; %d writes acknowledged, %d lost, %d refused, %d of them there, %d of unknown end, slowest acknowledged %v",
		what, len(c.acknowledged), lost, len(c.refused), wrong, c.unconfirmed, c.slowest.Round(time.Millisecond))
}

// TestCampaignCutOff cuts the leader off for a while and writes on both sides.
func TestCampaignCutOff(t *testing.T) {
	t.Parallel()
	c := newCampaign(t, nil)
	c.again(20, 1, 2, 3)
	old := c.leader()
	others := c.others(old.id)
	c.network.isolate(old.id)
	took := c.again(1, others...)
	eventually(t, func() error {
		if old.node.IsLeader() {
			return errors.New("who is cut off still leads")
		}
		return nil
	})
	before := time.Now()
	c.again(50, others...)
	c.mu.Lock()
	if last := c.last[old.id]; last.After(before) { // one that was begun before may have been committed in time
		t.Errorf("a write was acknowledged by one of three, %v after it was cut off", last.Sub(before))
	}
	c.mu.Unlock()
	c.network.mend(old.id)
	back := c.again(1, old.id)
	c.check(fmt.Sprintf("leader cut off: %v until the others acknowledged, %v until it did after it was back", took, back))
}

// slowDisk is a log with slow writes.
type slowDisk struct {
	raft.LogStore
	slow *atomic.Int64 // nanoseconds for each write
}

func (s slowDisk) StoreLog(l *raft.Log) error { return s.StoreLogs([]*raft.Log{l}) }

func (s slowDisk) StoreLogs(logs []*raft.Log) error {
	pause(context.Background(), time.Duration(s.slow.Load()))
	return s.LogStore.StoreLogs(logs)
}

func (slowDisk) IsMonotonic() bool { return true }

// TestCampaignSlowDisk makes each write of a follower's disk, and then of the leader's, take three
// sevenths of the heartbeat timeout. The leader stays the same. All times are seven times those of
// the product, because the machine may be busy.
func TestCampaignSlowDisk(t *testing.T) {
	t.Parallel()
	const heartbeat = 7 * 700 * time.Millisecond
	const latency = heartbeat * 3 / 7
	slow := map[NodeID]*atomic.Int64{1: {}, 2: {}, 3: {}}
	c := newCampaign(t, func(id NodeID, o *Options) {
		o.Timing.Heartbeat = heartbeat
		o.logs = func(s raft.LogStore) raft.LogStore { return slowDisk{s, slow[id]} }
	})
	usually := c.again(100, 1, 2, 3)
	l, by := c.leader(), c.follower()
	term := l.node.Term()
	slow[by.id].Store(int64(latency))
	follower := c.again(20, l.id)
	slow[by.id].Store(0)
	slow[l.id].Store(int64(latency))
	leader := c.again(5, 1, 2, 3)
	slow[l.id].Store(0)
	c.again(50, 1, 2, 3)
	if got := l.node.Term(); got != term {
		t.Errorf("the term is %d, and was %d", got, term)
	}
	c.check(fmt.Sprintf("a disk that takes %v for a write: %v for 100 writes at each node without, %v for 20 with a follower's, %v for 5 at each node with the leader's",
		latency, usually, follower, leader))
}

// TestCampaignClockSteps steps the clocks of nodes by days, forward and back. The leader stays the
// same.
func TestCampaignClockSteps(t *testing.T) {
	t.Parallel()
	steps := map[NodeID]*atomic.Int64{1: {}, 2: {}, 3: {}}
	c := newCampaign(t, func(id NodeID, o *Options) {
		calm(o) // the test does not measure elections
		o.Now = func() time.Time { return time.Now().Add(time.Duration(steps[id].Load())) }
	})
	c.again(20, 1, 2, 3)
	l, by := c.leader(), c.follower()
	term := l.node.Term()
	for _, days := range []time.Duration{400, -400, 0} {
		for _, id := range []NodeID{l.id, by.id} {
			steps[id].Store(int64(days * 24 * time.Hour))
			c.again(20, 1, 2, 3)
		}
	}
	if got := l.node.Term(); got != term {
		t.Errorf("the term is %d, and was %d", got, term)
	}
	if got := by.node.Figures().LastContact; got > time.Hour {
		t.Errorf("the leader was heard of %v ago", got)
	}
	c.check("clocks of the leader and a follower stepped by 400 days forward and back")
}

// TestCampaignTwoDown stops two of three nodes and starts them again.
func TestCampaignTwoDown(t *testing.T) {
	t.Parallel()
	c := newCampaign(t, nil)
	c.again(20, 1, 2, 3)
	last := c.follower()
	others := c.others(last.id)
	for _, id := range others {
		c.nodes[id].kill()
	}
	eventually(t, func() error {
		if st := last.node.Status(); st.State == StateLeader || !strings.Contains(st.ErrMsg, "cannot be reached") {
			return fmt.Errorf("status %+v", st)
		}
		return nil
	})
	c.start(others[0], usual)
	took := c.again(1, last.id)
	c.start(others[1], usual)
	c.settled(3)
	c.again(20, 1, 2, 3)
	c.check(fmt.Sprintf("two of three down: %v until the first write was acknowledged after one was back", took))
}

// TestCampaignFolderLost deletes everything of a node, and adds it again, under load.
func TestCampaignFolderLost(t *testing.T) {
	t.Parallel()
	c := newCampaign(t, func(_ NodeID, o *Options) { calm(o) })
	c.again(50, 1, 2, 3)
	lost := c.follower()
	lost.kill()
	lost.lose()
	c.again(20, c.others(lost.id)...)
	began := time.Now()
	lost = c.start(lost.id, calm)
	invitation, err := c.leader().node.AddNode(within(t, suite.HangLimit), member(lost.id))
	must(t, err, lost.node.Join(within(t, suite.HangLimit), spec(lost.id, 1, 2, 3), invitation))
	c.settled(3)
	took := time.Since(began).Round(time.Millisecond)
	c.again(20, 1, 2, 3)
	c.check(fmt.Sprintf("a node lost its folder: %v until it had a vote again", took))
}

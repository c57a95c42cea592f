package cluster

import (
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/hashicorp/raft"

	"signalbox/scripts/suite"
)

// limitedDisk is a log on a disk that may be full.
type limitedDisk struct {
	raft.LogStore
	full    atomic.Bool
	refused atomic.Int64
}

var errDiskFull = errors.New("database or disk is full")

func (d *limitedDisk) StoreLog(l *raft.Log) error { return d.StoreLogs([]*raft.Log{l}) }

func (d *limitedDisk) StoreLogs(logs []*raft.Log) error {
	if d.full.Load() {
		d.refused.Add(1)
		return errDiskFull
	}
	return d.LogStore.StoreLogs(logs)
}

func (*limitedDisk) IsMonotonic() bool { return true }

// TestFollowerDiskFull fills the disk of a follower for so long that the leader would have gone
// back to the beginning of its log. The follower reports the problem, and catches up when there is
// space, without a restart and without a snapshot.
func TestFollowerDiskFull(t *testing.T) {
	t.Parallel()
	f := newFleet(t)
	disks := map[NodeID]*limitedDisk{}
	f.formWith(func(o *Options) {
		d := &limitedDisk{}
		disks[NodeID(len(disks)+1)] = d
		o.logs = func(s raft.LogStore) raft.LogStore { d.LogStore = s; return d }
	}, 1, 2, 3)
	s := f.follower()
	l := f.nodes[1+s.id%3] // another one
	restores, disk := s.register.restored(), disks[s.id]
	disk.full.Store(true)
	want := map[string]string{}
	for i := range 5 {
		key := fmt.Sprint("k", i)
		want[key] = "v"
		eventually(t, func() error { // who leads may change
			_, err := l.node.Forward(within(t, suite.HangLimit), write{key, "v"}.encode())
			return err
		})
	}
	eventually(t, func() error {
		if n := disk.refused.Load(); n < 9 && s.register.restored() == restores {
			return fmt.Errorf("%d appends were refused", n)
		}
		return nil
	})
	if st := s.node.Status(); !strings.Contains(st.ErrMsg, errDiskFull.Error()) {
		t.Errorf("the node says %q of itself, want %q in it", st.ErrMsg, errDiskFull)
	}
	disk.full.Store(false)
	f.agree(want)
	eventually(t, func() error {
		if st := s.node.Status(); st.ErrMsg != "" {
			return errors.New(st.ErrMsg)
		}
		return nil
	})
	if got := s.register.restored() - restores; got != 0 {
		t.Errorf("%d snapshots were installed", got)
	}
}

// TestHealth has a node lag behind, and the disk be nearly full.
func TestHealth(t *testing.T) {
	t.Parallel()
	f := newFleet(t)
	gates, free := map[NodeID]*gated{}, map[NodeID]*atomic.Int64{}
	open := make(chan struct{})
	close(open)
	f.formWith(func(o *Options) {
		calm(o)
		g := &gated{o.Machine.(*register), open}
		id, bytes := NodeID(len(gates)+1), new(atomic.Int64)
		bytes.Store(1000)
		gates[id], free[id], o.Machine = g, bytes, g
		o.MaxLag, o.MinFreeDisk, o.diskFree = 5, 100, func(string) int64 { return bytes.Load() }
	}, 1, 2, 3)
	s := f.follower()
	is := func(want error) {
		t.Helper()
		eventually(t, func() error {
			if got := s.node.Healthy(); !errors.Is(got, want) || want == nil && got != nil {
				return fmt.Errorf("health is %w, want %w", got, want)
			}
			if st := s.node.Status(); (st.ErrMsg == "") != (want == nil) {
				return fmt.Errorf("the node says %q of itself", st.ErrMsg)
			}
			return nil
		})
	}
	is(nil)
	shut := make(chan struct{})
	gates[s.id].gate = shut
	for i := range 10 {
		f.nodes[1+s.id%3].put(t, fmt.Sprint("k", i), "v")
	}
	is(ErrLag)
	close(shut)
	is(nil)
	eventually(t, func() error {
		if lag := s.node.Health().Lag; lag != 0 {
			return fmt.Errorf("%d entries are still to be applied", lag)
		}
		return nil
	})
	free[s.id].Store(99)
	is(ErrLowDisk)
	free[s.id].Store(-1) // not known
	is(nil)
}

// TestLeaderReportsDanger stops a node, and starts it again with another release and another time of day:
// the leader reports that one more loss would stop the cluster while that lasts, and then the differences of
// the clocks and of the releases; nothing of it keeps the cluster from being well.
func TestLeaderReportsDanger(t *testing.T) {
	t.Parallel()
	f := newFleet(t).formWith(func(o *Options) { o.Version = "1.2.2" }, 1, 2, 3)
	s := f.follower()
	reports := func(problem, warning string, skew time.Duration) {
		t.Helper()
		eventually(t, func() error {
			st := f.leader(1+s.id%3, 1+(s.id+1)%3).node.Status()
			i := slices.IndexFunc(st.Nodes, func(n NodeStatus) bool { return n.NodeID == s.id })
			if st.ErrMsg != problem || !regexp.MustCompile("^"+warning+"$").MatchString(st.Warning) || i < 0 || st.Nodes[i].Skew.Round(time.Minute) != skew {
				return fmt.Errorf("the leader reports %q, %q and %+v", st.ErrMsg, st.Warning, st.Nodes)
			}
			return nil
		})
	}
	reports("", "", 0)
	s.kill()
	reports(fmt.Sprintf("the loss of one more node stops the cluster: 1 of its 3 voters do not answer (node %d)", s.id), "", 0)
	f.start(s.id, func(o *Options) {
		o.Version, o.Now = "1.2.3", func() time.Time { return time.Now().Add(-time.Hour) }
	})
	reports("", fmt.Sprintf("the clock of node %[1]d is (1h0m|59m59).* behind that of the leader: set both by NTP; "+
		"node %[1]d runs version 1.2.3, and the leader 1.2.2: upgrade all nodes", s.id), -time.Hour)
}

// TestLeaderReportsMissingVote has a node join that lacks what it needs for a vote: as long as it does, the leader reports
// that one more loss would stop the cluster.
func TestLeaderReportsMissingVote(t *testing.T) {
	t.Parallel()
	f := newFleet(t).form(1, 2)
	var complete atomic.Bool
	joins := f.start(3, func(o *Options) { o.Incomplete = func() bool { return !complete.Load() } })
	invitation, err := f.leader().node.AddNode(within(t, suite.HangLimit), member(3))
	must(t, err, joins.node.Join(within(t, suite.HangLimit), spec(3, 1, 2, 3), invitation))
	reports := func(problem string) {
		t.Helper()
		eventually(t, func() error {
			if got := f.leader(1, 2).node.Status().ErrMsg; got != problem {
				return fmt.Errorf("the leader reports %q, want %q", got, problem)
			}
			return nil
		})
	}
	reports("the loss of one more voter stops the cluster: node 3 has no vote yet, as it does not have all data of the cluster yet")
	complete.Store(true)
	reports("")
}

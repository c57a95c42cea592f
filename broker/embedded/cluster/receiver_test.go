package cluster

import (
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"path/filepath"
	"testing"

	"github.com/hashicorp/raft"

	"signalbox/broker/embedded/cluster/raftlog"
)

// accepted fails the test unless a message was accepted.
func accepted(t testing.TB, success bool, err error) {
	t.Helper()
	if err != nil || !success {
		t.Fatalf("success %v, error %v", success, err)
	}
}

// TestSnapshotAgain sends a snapshot, entries, the same snapshot again, and one more entry. The
// follower has acknowledged the entries, so it must keep them.
func TestSnapshotAgain(t *testing.T) {
	t.Parallel()
	l := newScripted(t, nil)
	install, err := l.install(firstIndex)
	accepted(t, install.Success, err)
	l.propose(5)
	entries, err := l.append(2, 6)
	accepted(t, entries.Success, err)
	install, err = l.install(firstIndex)
	accepted(t, install.Success, err)
	l.propose(1)
	entries, err = l.append(7, 7)
	accepted(t, entries.Success, err)
	entries, err = l.append(7, 7) // with the commit index
	accepted(t, entries.Success, err)
	l.agree()
	l.restart()
	l.propose(1)
	l.replicate()
	l.agree()
}

// TestCandidateForgetsLeader sends a node a heartbeat while it begins an election. The sender sends
// nothing more, so another candidate gets the node's vote.
func TestCandidateForgetsLeader(t *testing.T) {
	t.Parallel()
	l := newScripted(t, nil)
	install, err := l.install(firstIndex)
	accepted(t, install.Success, err)
	node, follower := l.node().membership.Load().raft, l.member(2)
	const gone = raft.ServerAddress("3.1@node3.test:7000")
	eventually(t, func() error {
		must(t, l.trans.TimeoutNow(follower.ID, follower.Address, &raft.TimeoutNowRequest{RPCHeader: l.header()}, &raft.TimeoutNowResponse{}))
		l.term = node.CurrentTerm()
		header := l.header()
		header.ID, header.Addr = []byte("3.1"), []byte(gone)
		beat := raft.AppendEntriesRequest{RPCHeader: header, Term: l.term}
		must(t, l.trans.AppendEntries(follower.ID, follower.Address, &beat, &raft.AppendEntriesResponse{}))
		if leader, _ := node.LeaderWithID(); leader != gone || node.State() != raft.Candidate {
			return fmt.Errorf("it is a %v with the leader %q", node.State(), leader)
		}
		return nil
	})
	eventually(t, func() error {
		ask := raft.RequestPreVoteRequest{RPCHeader: l.header(), Term: node.CurrentTerm() + 1, LastLogIndex: firstIndex, LastLogTerm: firstIndex}
		var got raft.RequestPreVoteResponse
		must(t, l.trans.RequestPreVote(follower.ID, follower.Address, &ask, &got))
		if !got.Granted {
			return errors.New("it denies its vote")
		}
		return nil
	})
}

// TestSnapshotWithinLog sends a snapshot that ends within the entries that the follower has
// acknowledged and does not know to be committed.
func TestSnapshotWithinLog(t *testing.T) {
	t.Parallel()
	l := newScripted(t, nil)
	install, err := l.install(firstIndex)
	accepted(t, install.Success, err)
	l.propose(8)
	entries, err := l.append(2, 9)
	accepted(t, entries.Success, err)
	install, err = l.install(6)
	accepted(t, install.Success, err)
	entries, err = l.append(9, 9)
	accepted(t, entries.Success, err)
	l.agree()
	l.restart()
	l.replicate()
	l.agree()
}

// TestFollowerAgainstModel sends a follower snapshots and entries, old and new and repeatedly, as
// retries and elections do. Meanwhile the follower restarts and takes snapshots of its own. It must
// keep what it has acknowledged, and catch up.
func TestFollowerAgainstModel(t *testing.T) {
	t.Parallel()
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	r := rand.New(rand.NewPCG(seed, 0))
	l := newScripted(t, func(o *Options) { o.Timing.Trailing = 2 })
	install, err := l.install(firstIndex)
	accepted(t, install.Success, err)
	for step := range 120 {
		l.step(r)
		if step%10 == 9 {
			l.propose(1)
			l.replicate()
			l.agree()
		}
	}
}

// TestIncompleteLog opens a node whose log lacks entries behind its snapshot, as earlier releases
// could leave it. It gets them again. Until then it does not help to elect a node that lacks what it
// has acknowledged.
func TestIncompleteLog(t *testing.T) {
	t.Parallel()
	l := newScripted(t, nil)
	install, err := l.install(firstIndex)
	accepted(t, install.Success, err)
	l.propose(8)
	entries, err := l.append(2, 9)
	accepted(t, entries.Success, err)
	l.nodes[2].kill()
	l.damage(2, 6)
	l.startFollower()
	l.takesPart()
	if l.votes(8, 1) {
		t.Error("the node votes for a leader that does not have all that it has acknowledged")
	}
	l.restart()
	if l.votes(8, 1) {
		t.Error("the node votes for a leader that does not have all that it has acknowledged, after a restart")
	}
	if !l.votes(9, 1) {
		t.Error("the node does not vote for a leader that has all that it has acknowledged")
	}
	if err := l.node().membership.Load().mayBeElected(); err == nil {
		t.Error("the node stands for election without what it has acknowledged")
	}
	l.propose(1)
	l.replicate()
	l.agree()
	if err := l.node().membership.Load().mayBeElected(); err != nil {
		t.Error(err)
	}
	l.restart()
	if err := l.node().membership.Load().mayBeElected(); err != nil {
		t.Error(err)
	}
}

// damage deletes entries from the log of the follower, which is closed.
func (l *scripted) damage(from, to uint64) {
	l.t.Helper()
	store, err := raftlog.Open(l.t.Context(), filepath.Join(l.dir, "node2", "cluster"), slog.New(slog.DiscardHandler))
	must(l.t, err, store.DeleteRange(from, to), store.Close())
}

// step does one thing that may happen to a follower.
func (l *scripted) step(r *rand.Rand) {
	l.t.Helper()
	between := func(lo, hi uint64) uint64 { return lo + r.Uint64N(hi-lo+1) }
	switch n := r.IntN(20); {
	case n < 5:
		l.propose(1 + r.IntN(5))
	case n < 10 && l.last() >= l.first: // again, or for the first time; there may be a gap
		from := between(l.first, l.last())
		l.append(from, between(from, l.last())) //nolint:errcheck // it may be refused
	case n < 14: // any that was ever taken
		l.install(between(firstIndex, l.commit)) //nolint:errcheck // it may be refused
	case n == 14:
		l.lead(between(l.commit, l.last()))
	case n == 15:
		l.compact(between(firstIndex, l.commit))
	case n == 16:
		l.node().membership.Load().raft.Snapshot().Error() //nolint:errcheck // there may be nothing new
	case n == 17:
		l.restart()
	case n == 18: // other nodes are the majority
		if upTo := between(l.commit, l.last()); l.termOf(upTo) == l.term {
			l.commit = upTo
		}
	default:
		l.propose(1)
		l.replicate()
	}
}

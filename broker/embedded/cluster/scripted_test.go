package cluster

import (
	"bytes"
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net"
	"signalbox/scripts/suite"
	"testing"

	"github.com/hashicorp/raft"
)

// scripted is a leader that sends node 2 what the test wants, over node 2's cluster port. Node 2 is
// compared with its log.
type scripted struct {
	*fleet
	known       *state
	credentials *credentials
	trans       *raft.NetworkTransport
	tune        func(*Options)
	term        uint64
	log         []*raft.Log // by index; 0 and firstIndex are nil, they are in every snapshot
	first       uint64      // the first entry that was not compacted
	commit      uint64
	acked       uint64 // up to which entry node 2 has acknowledged the log in this term
}

// newScripted creates a cluster of a scripted leader, node 1, and of node 2.
func newScripted(t testing.TB, tune func(*Options)) *scripted {
	t.Helper()
	known, err := newClusterState(spec(1, 1, 2))
	must(t, err)
	l := &scripted{fleet: newFleet(t), known: known, tune: tune, term: 1, log: make([]*raft.Log, 2), first: 2, commit: firstIndex}
	self, _ := known.member(1)
	id, err := known.identify(self)
	must(t, err)
	l.credentials, err = id.credentials()
	must(t, err)
	l.credentials.dial = func(ctx context.Context, hostPort string) (net.Conn, error) { return l.network.dial(ctx, 1, hostPort) }
	l.trans = raft.NewNetworkTransportWithConfig(&raft.NetworkTransportConfig{
		Stream: newStreamLayer(context.Background(), l.credentials, self.serverAddress(), suite.HangLimit), MaxPool: 1, Timeout: suite.HangLimit,
	})
	t.Cleanup(func() { l.trans.CloseStreams(); must(t, l.trans.Close()) })
	l.startFollower()
	other, _ := known.member(2)
	invitation, err := known.invite(other)
	must(t, err)
	joins, err := invitation.accept(spec(2, 1, 2))
	must(t, err, l.node().join(t.Context(), joins))
	return l
}

func (l *scripted) startFollower() {
	l.t.Helper()
	l.trans.CloseStreams() // those to the follower as it was
	l.start(2, func(o *Options) {
		o.Timing.SnapshotEvery = suite.HangLimit // the test takes them
		if l.tune != nil {
			l.tune(o)
		}
	})
}

func (l *scripted) node() *Node { return l.nodes[2].node }

// restart closes the follower and opens it again.
func (l *scripted) restart() {
	l.t.Helper()
	l.nodes[2].kill()
	l.startFollower()
}

func (l *scripted) member(id NodeID) raft.Server {
	m, _ := l.known.member(id)
	return m.server(raft.Voter)
}

func (l *scripted) header() raft.RPCHeader {
	s := l.member(1)
	return raft.RPCHeader{ProtocolVersion: raft.ProtocolVersionMax, ID: []byte(s.ID), Addr: []byte(s.Address)}
}

func (l *scripted) last() uint64 { return uint64(len(l.log)) - 1 }

// propose adds entries to the leader's log.
func (l *scripted) propose(n int) {
	for range n {
		index := l.last() + 1
		data := binary.BigEndian.AppendUint64([]byte{forMachine}, l.term)
		data = append(data, write{fmt.Sprint("k", index), fmt.Sprint(l.term)}.encode()...)
		l.log = append(l.log, &raft.Log{Index: index, Term: l.term, Type: raft.LogCommand, Data: data})
	}
}

// lead begins a term of a leader that lacks some of the entries which were not
// committed.
func (l *scripted) lead(keep uint64) {
	l.log, l.acked = l.log[:keep+1], 0
	l.term++
}

func (l *scripted) termOf(index uint64) uint64 {
	if index < 2 {
		return index // the term of firstIndex is 1
	}
	return l.log[index].Term
}

// append sends the entries from one to another, both included.
func (l *scripted) append(from, to uint64) (raft.AppendEntriesResponse, error) {
	l.t.Helper()
	req := raft.AppendEntriesRequest{
		RPCHeader: l.header(), Term: l.term, PrevLogEntry: from - 1, PrevLogTerm: l.termOf(from - 1),
		Entries: l.log[from : to+1], LeaderCommitIndex: min(l.commit, to),
	}
	var resp raft.AppendEntriesResponse
	follower := l.member(2)
	err := l.trans.AppendEntries(follower.ID, follower.Address, &req, &resp)
	if err == nil && resp.Success {
		l.acknowledged(to)
	}
	return resp, err
}

// acknowledged commits what both nodes have, as a leader does: only by an entry of its own term
// (Raft §5.4.2).
func (l *scripted) acknowledged(upTo uint64) {
	l.acked = max(l.acked, upTo)
	if upTo > l.commit && l.termOf(upTo) == l.term {
		l.commit = upTo
	}
}

// values returns the state of a machine that has applied the log up to an index.
func (l *scripted) values(upTo uint64) map[string]string {
	all := map[string]string{}
	for _, e := range l.log[2:max(2, upTo+1)] {
		var w write
		must(l.t, json.Unmarshal(e.Data[machineHeader:], &w))
		all[w.Key] = w.Value
	}
	return all
}

// install sends a snapshot at an index.
func (l *scripted) install(index uint64) (raft.InstallSnapshotResponse, error) {
	l.t.Helper()
	var contents bytes.Buffer
	h := header{State: *l.known}
	if index > firstIndex {
		h.State.Index, h.Machine = firstIndex, index
	}
	must(l.t, h.write(&contents))
	_, err := registerView{l.values(index)}.WriteTo(&contents)
	must(l.t, err)
	to, leader := l.member(2), l.header().Addr
	req := raft.InstallSnapshotRequest{
		RPCHeader: l.header(), SnapshotVersion: 1, Term: l.term, Leader: leader, LastLogIndex: index, LastLogTerm: l.termOf(index),
		Configuration: raft.EncodeConfiguration(raft.Configuration{Servers: []raft.Server{l.member(1), to}}), ConfigurationIndex: firstIndex,
		Size: int64(contents.Len()),
	}
	var resp raft.InstallSnapshotResponse
	err = l.trans.InstallSnapshot(to.ID, to.Address, &req, &resp, &contents)
	if err == nil && resp.Success {
		l.acked = max(l.acked, index)
	}
	return resp, err
}

// votes requests the follower's vote for a candidate whose log ends with an entry.
func (l *scripted) votes(index, term uint64) bool {
	l.t.Helper()
	l.term++
	to := l.member(2)
	req := raft.RequestVoteRequest{RPCHeader: l.header(), Term: l.term, LastLogIndex: index, LastLogTerm: term, LeadershipTransfer: true}
	var resp raft.RequestVoteResponse
	must(l.t, l.trans.RequestVote(to.ID, to.Address, &req, &resp))
	return resp.Granted
}

// compact deletes the leader's log up to an index that is committed.
func (l *scripted) compact(upTo uint64) { l.first = max(l.first, upTo+1) }

// replicate does what raft's replicateTo does until the follower has everything. It fails after more
// messages than can be necessary.
func (l *scripted) replicate() {
	l.t.Helper()
	next, last := l.last()+1, l.last()
	var err error
	for messages := uint64(0); messages < 3*last+50; messages++ {
		if next < l.first {
			var resp raft.InstallSnapshotResponse
			resp, err = l.install(l.first - 1)
			switch {
			case err != nil:
				l.takesPart()
			case resp.Success:
				next = l.first
			}
			continue
		}
		to, committed := min(next+9, last), l.commit == last
		var resp raft.AppendEntriesResponse
		switch resp, err = l.append(next, to); {
		case err != nil:
			l.takesPart()
		case !resp.Success:
			next = max(min(next-1, resp.LastLog+1), 1)
		case committed && to == last:
			return
		default:
			next = to + 1
		}
	}
	l.t.Fatalf("the follower does not catch up: next entry is %d of %d, the leader has those from %d; last error %v", next, last, l.first, err)
}

// takesPart waits until the follower takes part in the consensus, if it is restarting.
func (l *scripted) takesPart() {
	l.t.Helper()
	eventually(l.t, func() error {
		if st := l.node().Status(); st.State == StateUnavailable {
			return errors.New(st.ErrMsg)
		}
		return nil
	})
}

// agree waits until the follower's machine has applied what is committed.
func (l *scripted) agree() {
	l.t.Helper()
	want := l.values(l.commit)
	eventually(l.t, func() error {
		if got := l.nodes[2].register.all(); !maps.Equal(got, want) {
			return fmt.Errorf("the follower holds %v, want %v", got, want)
		}
		return nil
	})
}

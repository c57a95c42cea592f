package cluster

import (
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/hashicorp/raft"
)

// receiver passes the messages of other nodes to raft, one at a time, and corrects
// what raft 1.8.0 does wrong as a follower:
//
//   - raft installs a snapshot that is older than its log, and deletes the log. The
//     entries behind the snapshot may be committed because this node has
//     acknowledged them. A follower that has the snapshot's last entry retains its
//     log instead (Raft §7).
//   - raft rejects entries that follow its own snapshot unless they are the next
//     ones: it looks for the entry before them in the log only. The leader then goes
//     back to its own snapshot, and sends that for ever.
//   - raft answers a failed write as if its log did not match the leader's, so that
//     the leader goes back entry by entry. The receiver returns an error instead,
//     after which the leader sends the same again.
//   - raft accepts heartbeats while it begins an election, and then keeps their sender
//     as the leader until it knows another one. If that sender has failed, it denies
//     its vote to all candidates for ever. The receiver makes it begin another election,
//     which clears the leader, before it passes a request for a vote on.
//
// It reads raft's state only between two messages, while the log does not change.
type receiver struct {
	membership *membership
	log        *watchedLog
	in         <-chan raft.RPC // from the transport
	out        chan raft.RPC   // to raft
}

// errStale is why a node restarts its participation: the end of the log that raft remembers is
// not that of the log.
var errStale = errors.New("the end of the cluster's log is read again")

func (r *receiver) run() {
	r.electSelf()
	for {
		select {
		case rpc := <-r.in:
			r.pass(rpc)
		case <-r.membership.stand:
			r.startElection("no election is started although the leader has failed")
		case <-r.membership.ctx.Done():
			return
		}
	}
}

// electSelf makes raft begin an election if no other node has a vote: there is no leader to wait
// for, and the node is elected by its own vote.
func (r *receiver) electSelf() {
	s := r.membership
	for _, server := range s.servers() {
		if isSelf := server.ID == raft.ServerID(s.credentials.self.String()); isSelf != (server.Suffrage == raft.Voter) {
			return
		}
	}
	if s.voters() == 1 {
		r.startElection("the only node with a vote does not stand for election at once")
	}
}

func (r *receiver) pass(rpc raft.RPC) {
	switch request := rpc.Command.(type) {
	case *raft.AppendEntriesRequest:
		rpc.Respond(r.append(request))
	case *raft.InstallSnapshotRequest:
		rpc.Respond(r.install(rpc, request))
	default:
		r.forgetLeader()
		if response := r.membership.abstain(rpc.Command); response != nil {
			rpc.Respond(response, nil)
			return
		}
		rpc.Respond(r.ask(rpc.Command, rpc.Reader))
	}
}

// forgetLeader makes raft clear the leader that it keeps though it is a candidate itself. A leader
// that is alive is known again with its next heartbeat.
func (r *receiver) forgetLeader() {
	s := r.membership
	if leader, _ := s.raft.LeaderWithID(); leader == "" || s.raft.State() != raft.Candidate {
		return
	}
	r.startElection("a leader that is gone is still taken for the leader")
}

// startElection makes raft begin an election. If it does not, the consequence is logged.
func (r *receiver) startElection(consequence string) {
	header := raft.RPCHeader{ProtocolVersion: raft.ProtocolVersionMax}
	if _, err := r.ask(&raft.TimeoutNowRequest{RPCHeader: header}, nil); err != nil && r.membership.ctx.Err() == nil {
		r.membership.node.log.Warn(consequence, "error", err)
	}
}

// ask passes a request to raft and returns its response.
func (r *receiver) ask(request any, body io.Reader) (any, error) {
	answer := make(chan raft.RPCResponse, 1)
	ctx := r.membership.ctx
	select {
	case r.out <- raft.RPC{Command: request, Reader: body, RespChan: answer}:
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
	select {
	case a := <-answer:
		return a.Response, a.Error
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
}

// append passes entries to raft, or a heartbeat without entries.
func (r *receiver) append(request *raft.AppendEntriesRequest) (any, error) {
	if isHeartbeat(request) { // usually passed to raft without the receiver
		return r.ask(request, nil)
	}
	raise(&r.membership.leaderCommit, request.LeaderCommitIndex)
	if r.membership.fsm.applyError.Load() != nil {
		return nil, errStale // or the membership is about to stop for another reason
	}
	r.skipCommitted(request)
	failures := r.log.failures.Load()
	response, err := r.ask(request, nil)
	answer, ok := response.(*raft.AppendEntriesResponse)
	switch {
	case err != nil || !ok:
	case answer.Success:
		r.membership.regained()
	case r.log.failures.Load() != failures:
		r.reread()
		return answer, fmt.Errorf("node %d cannot store the entries: %w", r.membership.id.Self.NodeID, *r.log.failed.Load())
	}
	return response, err
}

// skipCommitted leaves out the entries that this node has applied, if the one
// before them is no longer in the log: it is part of a snapshot. All that was
// applied was committed, so it is the same in the log of every leader
// (Raft §5.4.3).
func (r *receiver) skipCommitted(request *raft.AppendEntriesRequest) {
	applied := r.membership.raft.AppliedIndex()
	if prev := request.PrevLogEntry; prev > applied || prev > 0 && r.log.has(prev) {
		return
	}
	request.PrevLogEntry, request.PrevLogTerm = 0, 0
	for len(request.Entries) > 0 && request.Entries[0].Index <= applied {
		request.Entries = request.Entries[1:]
	}
	upTo := applied
	if n := len(request.Entries); n > 0 {
		upTo = request.Entries[n-1].Index
	}
	request.LeaderCommitIndex = min(request.LeaderCommitIndex, upTo)
}

// install passes a snapshot to raft, unless this node has everything that is in it.
func (r *receiver) install(rpc raft.RPC, request *raft.InstallSnapshotRequest) (any, error) {
	if !r.covers(request.LastLogIndex, request.LastLogTerm) {
		response, err := r.ask(request, rpc.Reader)
		if err == nil {
			r.reread()
			r.membership.regained()
		}
		return response, err
	}
	if _, err := io.Copy(io.Discard, rpc.Reader); err != nil { // the next message follows the snapshot
		return nil, fmt.Errorf("skip a snapshot: %w", err)
	}
	// raft answers it as a heartbeat, with its term and whether that is the sender's.
	response, err := r.ask(&raft.AppendEntriesRequest{RPCHeader: request.RPCHeader, Term: request.Term}, nil)
	answer, ok := response.(*raft.AppendEntriesResponse)
	if err != nil || !ok {
		return nil, err
	}
	r.membership.node.log.Info("a snapshot of the cluster's log is not installed, because the node has everything that is in it", "index", request.LastLogIndex)
	return &raft.InstallSnapshotResponse{RPCHeader: answer.RPCHeader, Term: answer.Term, Success: answer.Success}, nil
}

// covers reports whether this node has everything up to an entry.
func (r *receiver) covers(index, term uint64) bool {
	if index <= r.membership.raft.AppliedIndex() {
		return true
	}
	var l raft.Log
	return r.log.GetLog(index, &l) == nil && l.Term == term
}

// reread restarts the node's participation if raft remembers entries that the log does not have:
// raft does not notice when it has deleted entries and could not store others in their place, or
// has installed a snapshot that its log contradicts.
func (r *receiver) reread() {
	s := r.membership
	remembered := s.raft.LastIndex() // read before the log, which grows first
	last, err := s.node.store.LastIndex()
	if err != nil || remembered <= last {
		return
	}
	all, err := s.node.store.List()
	if err != nil || len(all) > 0 && remembered <= all[0].Index {
		return
	}
	s.node.log.Info("the node restarts its participation in the cluster, to read the end of the log again", "last", last, "remembered", remembered)
	s.fsm.applyError.CompareAndSwap(nil, &ApplyError{errStale})
	s.fsm.notify()
}

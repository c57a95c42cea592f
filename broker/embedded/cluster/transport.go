package cluster

import (
	"io"

	"github.com/hashicorp/raft"
)

// maxAppend bounds the entries of one message, in bytes; a larger entry is sent alone. raft would
// send 64 entries of any size to a node that is behind, which has to store them within the time
// limit of one message.
const maxAppend = 1 << 20

// transport is raft's transport with messages of a bounded size. Inbound messages go through a
// receiver.
type transport struct {
	*raft.NetworkTransport
	membership *membership
	inbound    <-chan raft.RPC // from the receiver
}

// Consumer returns the channel of inbound messages.
func (t transport) Consumer() <-chan raft.RPC { return t.inbound }

// RequestVote asks for a vote.
func (t transport) RequestVote(id raft.ServerID, to raft.ServerAddress, args *raft.RequestVoteRequest, resp *raft.RequestVoteResponse) error {
	if err := t.membership.mayBeElected(); err != nil {
		return err
	}
	return t.NetworkTransport.RequestVote(id, to, args, resp)
}

// RequestPreVote asks whether a node would grant its vote.
func (t transport) RequestPreVote(id raft.ServerID, to raft.ServerAddress, args *raft.RequestPreVoteRequest, resp *raft.RequestPreVoteResponse) error {
	if err := t.membership.mayBeElected(); err != nil {
		return err
	}
	return t.NetworkTransport.RequestPreVote(id, to, args, resp)
}

// AppendEntries sends as many of the entries as one message may have. raft continues with the one
// behind the last that was sent. If the message cannot be sent, the error is returned when the node
// is in contact.
func (t transport) AppendEntries(id raft.ServerID, to raft.ServerAddress, args *raft.AppendEntriesRequest, resp *raft.AppendEntriesResponse) error {
	if isHeartbeat(args) {
		err := t.NetworkTransport.AppendEntries(id, to, args, resp)
		if err == nil {
			t.membership.reached.note(id)
		}
		return err
	}
	shorten(args)
	return t.whenReached(id, to, heartbeat(args.RPCHeader, args.Term), func() error {
		return t.NetworkTransport.AppendEntries(id, to, args, resp)
	})
}

// InstallSnapshot sends a snapshot. Its error is returned as that of AppendEntries.
func (t transport) InstallSnapshot(id raft.ServerID, to raft.ServerAddress, args *raft.InstallSnapshotRequest, resp *raft.InstallSnapshotResponse, data io.Reader) error {
	return t.whenReached(id, to, heartbeat(args.RPCHeader, args.Term), func() error {
		return t.NetworkTransport.InstallSnapshot(id, to, args, resp, data)
	})
}

// whenReached sends a message to a node. It returns an error only after later contact with the
// node, or when this node no longer replicates to it. Contact is tried at once: it may be only
// that a connection was closed, and raft's own heartbeats are rare where the election timeout is
// long.
func (t transport) whenReached(id raft.ServerID, to raft.ServerAddress, beat raft.AppendEntriesRequest, send func() error) error {
	s := t.membership
	heard := s.reached.next(id)
	err := send()
	if err == nil {
		return nil
	}
	s.reached.await(s.ctx, heard, s.node.options.Timing.Heartbeat, func() (reached, wanted bool) {
		if !s.replicates(id, beat.Term) {
			return false, false
		}
		request, response := beat, raft.AppendEntriesResponse{}
		return t.NetworkTransport.AppendEntries(id, to, &request, &response) == nil, true
	})
	return err
}

// heartbeat returns a heartbeat of the leader whose header it is.
func heartbeat(header raft.RPCHeader, term uint64) raft.AppendEntriesRequest {
	return raft.AppendEntriesRequest{RPCHeader: header, Term: term}
}

// isHeartbeat reports whether a message is a heartbeat, which has no entries.
func isHeartbeat(a *raft.AppendEntriesRequest) bool {
	return len(a.Entries) == 0 && a.PrevLogEntry == 0 && a.PrevLogTerm == 0 && a.LeaderCommitIndex == 0
}

// shorten leaves out the entries that exceed maxAppend, and lowers the commit index to the last
// entry that is sent.
func shorten(args *raft.AppendEntriesRequest) {
	size := 0
	for i, l := range args.Entries {
		size += len(l.Data) + len(l.Extensions)
		if i > 0 && size > maxAppend {
			args.Entries = args.Entries[:i]
			args.LeaderCommitIndex = min(args.LeaderCommitIndex, args.Entries[i-1].Index)
			return
		}
	}
}

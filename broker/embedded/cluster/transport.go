package cluster

import (
	"io"

	"github.com/hashicorp/raft"
)

// maxAppend is how many bytes of entries are sent at once, or one entry that has
// more. A node that is behind would be sent 64 entries at once however large they
// are, and has to store them within the time of one message.
const maxAppend = 1 << 20

// transport is raft's, with messages of a bounded size. What comes from other nodes
// goes through a receiver.
type transport struct {
	*raft.NetworkTransport
	membership *membership
	inbound    <-chan raft.RPC // from the receiver
}

// Consumer returns the channel of what other nodes ask.
func (t transport) Consumer() <-chan raft.RPC { return t.inbound }

// RequestVote asks for a vote.
func (t transport) RequestVote(id raft.ServerID, to raft.ServerAddress, args *raft.RequestVoteRequest, resp *raft.RequestVoteResponse) error {
	if err := t.membership.mayStand(); err != nil {
		return err
	}
	return t.NetworkTransport.RequestVote(id, to, args, resp)
}

// RequestPreVote asks whether a node would give its vote.
func (t transport) RequestPreVote(id raft.ServerID, to raft.ServerAddress, args *raft.RequestPreVoteRequest, resp *raft.RequestPreVoteResponse) error {
	if err := t.membership.mayStand(); err != nil {
		return err
	}
	return t.NetworkTransport.RequestPreVote(id, to, args, resp)
}

// AppendEntries sends as many of the entries as one message may have. raft goes on
// with the one behind the last that was sent. If the node cannot be reached, the
// error comes when it is in contact again.
func (t transport) AppendEntries(id raft.ServerID, to raft.ServerAddress, args *raft.AppendEntriesRequest, resp *raft.AppendEntriesResponse) error {
	if isHeartbeat(args) {
		err := t.NetworkTransport.AppendEntries(id, to, args, resp)
		if err == nil {
			t.membership.reached.note(id)
		}
		return err
	}
	shorten(args)
	return t.whenReached(id, args.Term, func() error { return t.NetworkTransport.AppendEntries(id, to, args, resp) })
}

// InstallSnapshot sends a snapshot. Its error comes as that of AppendEntries does.
func (t transport) InstallSnapshot(id raft.ServerID, to raft.ServerAddress, args *raft.InstallSnapshotRequest, resp *raft.InstallSnapshotResponse, data io.Reader) error {
	return t.whenReached(id, args.Term, func() error { return t.NetworkTransport.InstallSnapshot(id, to, args, resp, data) })
}

// whenReached sends something to a node, and returns an error only once the node
// was in contact since then, or is not to be sent anything any more.
func (t transport) whenReached(id raft.ServerID, term uint64, send func() error) error {
	s := t.membership
	heard := s.reached.next(id)
	err := send()
	if err != nil {
		s.reached.await(s.ctx, heard, s.node.options.Timing.Heartbeat, func() bool { return s.replicates(id, term) })
	}
	return err
}

// isHeartbeat reports whether a message is one that raft sends beside the log, in
// intervals.
func isHeartbeat(a *raft.AppendEntriesRequest) bool {
	return len(a.Entries) == 0 && a.PrevLogEntry == 0 && a.PrevLogTerm == 0 && a.LeaderCommitIndex == 0
}

// shorten leaves out the entries for which there is no room. What is not sent is
// not said to be committed, either.
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

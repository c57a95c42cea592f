package cluster

import (
	"github.com/hashicorp/raft"
)

// maxAppend is how many bytes of entries are sent at once, or one entry that has
// more. A node that is behind would be sent 64 entries at once however large they
// are, and has to store them within the time of one message.
const maxAppend = 1 << 20

// transport is raft's, with messages of a bounded size.
type transport struct{ *raft.NetworkTransport }

// AppendEntries sends as many of the entries as one message may have. raft goes on
// with the one behind the last that was sent.
func (t transport) AppendEntries(id raft.ServerID, to raft.ServerAddress, args *raft.AppendEntriesRequest, resp *raft.AppendEntriesResponse) error {
	shorten(args)
	return t.NetworkTransport.AppendEntries(id, to, args, resp)
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

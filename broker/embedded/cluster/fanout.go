package cluster

import "github.com/hashicorp/raft"

// fanOutCommits makes the other nodes apply what this one has applied, as soon as one of
// them waits for it. raft sends its commit index with the next entry, or after
// Timing.Commit without one; so this appends an empty entry. One is pending at a time:
// under load there are other entries.
func (s *membership) fanOutCommits() {
	for sent := uint64(0); ; {
		select {
		case <-s.awaited:
		case <-s.ctx.Done():
			return
		}
		if upTo := s.fsm.appliedIndex(); upTo > sent && s.raft.State() == raft.Leader && s.commitBarrier() == nil {
			sent = upTo
		}
	}
}

// commitBarrier appends an empty entry and waits for it.
func (s *membership) commitBarrier() error {
	ctx, cancel := s.node.bounded(s.ctx)
	defer cancel()
	return s.await(ctx, func() raft.Future { return s.raft.Barrier(timeLeft(ctx)) })
}

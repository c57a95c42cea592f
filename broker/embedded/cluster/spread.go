package cluster

import "github.com/hashicorp/raft"

// spread has the other nodes apply what this one has applied, as soon as one of
// them waits for it. raft tells them with the next entry how far they may go, or
// when nothing happens for Timing.Commit; so it is given an entry that asks for
// nothing. One is under way at a time: under load there are other entries.
func (s *seat) spread() {
	for told := uint64(0); ; {
		select {
		case <-s.awaited:
		case <-s.ctx.Done():
			return
		}
		if upTo := s.fsm.upTo(); upTo > told && s.raft.State() == raft.Leader && s.tell() == nil {
			told = upTo
		}
	}
}

// tell puts an entry behind all others, and waits for it.
func (s *seat) tell() error {
	ctx, cancel := s.node.bounded(s.ctx)
	defer cancel()
	return s.settle(ctx, func() raft.Future { return s.raft.Barrier(patienceOf(ctx)) })
}

package cluster

import (
	"context"
	"slices"
	"time"

	"github.com/hashicorp/raft"
)

// A node that was away may not know that a member was removed meanwhile. That member could send it
// entries that no majority has committed, with which this node could win an election. So after a
// start the node asks the members that it knows before it accepts connections, and uses their
// reports as long as they are ahead of it. Members that do not answer are asked again.

// awaitAsked waits until the other members were asked once since the start, at most 2 s.
func (s *membership) awaitAsked(ctx context.Context) bool {
	select {
	case <-s.asked:
		return true
	case <-ctx.Done():
	case <-s.ctx.Done():
	}
	return false
}

// checkPeersFirst checks the members for the first time.
func (s *membership) checkPeersFirst() {
	s.checkPeers()
	close(s.asked)
}

// reportedRemoved reports whether a member was removed, according to members that are ahead of
// this node. If as many report that it was not, it is refused as well, and an operator has to
// decide: a removed node that makes false reports can at most keep a returning node out. A report
// counts until this node is as far itself, whether or not the member that made it still answers.
func (s *membership) reportedRemoved(r memberRef) bool {
	known := s.fsm.state.Load()
	if known.Keys == nil || s.reportedUpTo.Load() <= known.Index || s.leadsWithAll() {
		return false
	}
	name, gone, there := r.String(), 0, 0
	for from, c := range s.contactsByRef() {
		if c.Keys == nil || c.Known <= known.Index || from == r {
			continue
		}
		if _, ok := c.Keys[name]; ok {
			there++
		} else if c.Known >= r.generation { // otherwise it may not know the member yet
			gone++
		}
	}
	wasRemoved := gone > 0 && gone >= there
	if wasRemoved {
		s.warnReportedRemoved(r)
	}
	return wasRemoved
}

// leadsWithAll reports whether this node leads and has applied everything that was committed
// before, so that no other node can be ahead.
func (s *membership) leadsWithAll() bool {
	return s.raft.State() == raft.Leader && s.barrierTerm.Load() == s.raft.CurrentTerm()
}

// isTrulyRemoved reports whether more of the members that answer report that this node
// was removed than that it was not: a node that reports so may itself have been removed.
func (s *membership) isTrulyRemoved() bool {
	removed, member := 0, 0
	for _, c := range s.contactsByRef() {
		switch {
		case c.err != nil:
		case c.Removed:
			removed++
		case c.Seeded:
			member++
		}
	}
	return removed > member
}

// unanswered returns the members that have not answered since this node takes part.
func (s *membership) unanswered() []Member {
	heard := s.contactsByRef()
	return slices.DeleteFunc(s.others(), func(m Member) bool { return !heard[m.ref()].at.IsZero() })
}

// warnReportedRemoved logs, at most once a minute, that a node that is a member here is refused because
// of reports.
func (s *membership) warnReportedRemoved(r memberRef) {
	last, now := s.warned.Load(), time.Now().UnixNano()
	if now-last > int64(refusedEvery) && s.warned.CompareAndSwap(last, now) {
		s.node.log.Warn("a node is refused: other members say that it was removed while this one was away", "node", int(r.id))
	}
}

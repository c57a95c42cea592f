package cluster

import (
	"context"
	"slices"
	"time"

	"github.com/hashicorp/raft"
)

// A node that was away may take a member for one that was removed meanwhile, who could
// then send it entries of a log that no majority has agreed upon. So after a start it asks
// the members that it knows of before it lets any of them in, and goes by what they say as
// long as they are ahead of it. Who does not answer is asked again.

// awaitAsked waits until the other members were asked once since the node takes part.
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

// reportedRemoved reports whether a member was removed, as nodes report that know more
// than this one. Where as many report that it was not, it is refused as well: an operator
// has to decide. A report counts until this node knows as much itself, whether or not the
// member that made it still answers.
func (s *membership) reportedRemoved(r memberRef) bool {
	known := s.fsm.state.Load()
	if known.Keys == nil || s.toldUpTo.Load() <= known.Index || s.leadsWithAll() {
		return false
	}
	name, gone, there := r.String(), 0, 0
	for from, c := range s.contactsByRef() {
		if c.Keys == nil || c.Known <= known.Index || from == r {
			continue
		}
		if _, ok := c.Keys[name]; ok {
			there++
		} else if c.Known >= r.generation { // else it has not heard of it yet, either
			gone++
		}
	}
	wasRemoved := gone > 0 && gone >= there
	if wasRemoved {
		s.warnReportedRemoved(r)
	}
	return wasRemoved
}

// leadsWithAll reports whether this node leads and has applied everything that was
// committed before, so that no other node can know more.
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

// warnDisowned logs a member that is refused though it is one as far as is known here,
// once a minute.
func (s *membership) warnReportedRemoved(r memberRef) {
	last, now := s.warned.Load(), time.Now().UnixNano()
	if now-last > int64(refusedEvery) && s.warned.CompareAndSwap(last, now) {
		s.node.log.Warn("a node is refused: other members say that it was removed while this one was away", "node", int(r.id))
	}
}

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

// confirmed waits until the other members were asked once since the node takes part.
func (s *seat) confirmed(ctx context.Context) bool {
	select {
	case <-s.asked:
		return true
	case <-ctx.Done():
	case <-s.ctx.Done():
	}
	return false
}

// lookFirst looks at the members for the first time.
func (s *seat) lookFirst() {
	s.look()
	close(s.asked)
}

// disowned reports whether a member was removed, as others say that know more than this
// node. Where as many of them say that it was not, it is refused as well: an operator has
// to decide. What a member has said counts until this node knows as much itself, whether
// that member still answers or not.
func (s *seat) disowned(r ref) bool {
	known := s.fsm.state.Load()
	if known.Keys == nil || s.toldUpTo.Load() <= known.Index || s.leadsWithAll() {
		return false
	}
	name, gone, there := r.String(), 0, 0
	for from, c := range s.heardOf() {
		if c.Keys == nil || c.Known <= known.Index || from == r {
			continue
		}
		if _, ok := c.Keys[name]; ok {
			there++
		} else if c.Known >= r.generation { // else it has not heard of it yet, either
			gone++
		}
	}
	isGone := gone > 0 && gone >= there
	if isGone {
		s.warnDisowned(r)
	}
	return isGone
}

// leadsWithAll reports whether this node leads and has applied all that was committed
// before, so that no other one can know more.
func (s *seat) leadsWithAll() bool {
	return s.raft.State() == raft.Leader && s.barrierTerm.Load() == s.raft.CurrentTerm()
}

// isTrulyRemoved reports whether the members that answer say that this node was removed:
// more of them than say that it was not, as one that says so may itself have been removed.
func (s *seat) isTrulyRemoved() bool {
	removed, member := 0, 0
	for _, c := range s.heardOf() {
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

// unanswered lists the members that have not answered since this node takes part.
func (s *seat) unanswered() []Member {
	heard := s.heardOf()
	return slices.DeleteFunc(s.others(), func(m Member) bool { return !heard[m.ref()].at.IsZero() })
}

// warnDisowned logs a member that is refused though it is one as far as is known here,
// once a minute.
func (s *seat) warnDisowned(r ref) {
	last, now := s.warned.Load(), time.Now().UnixNano()
	if now-last > int64(refusedEvery) && s.warned.CompareAndSwap(last, now) {
		s.node.log.Warn("a node is refused: other members say that it was removed while this one was away", "node", int(r.id))
	}
}

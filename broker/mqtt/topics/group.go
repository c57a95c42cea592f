package topics

import (
	"iter"
	"sync/atomic"
)

// Group is a shared subscription with its members as they were when it was
// matched. A message goes to one of them (MQTT 5, 4.8.2).
type Group[S comparable] struct {
	Filter  string // the whole one, with $share and the name
	Members []Member[S]
	turn    *atomic.Uint64 // the same for all results
}

// Member is one of a shared subscription.
type Member[S comparable] struct {
	Who S
	Options
}

// Turn gives every member once, beginning with the one whose turn it is. The
// turn passes on with each walk, whichever result of Match it starts from.
func (g *Group[S]) Turn() iter.Seq[Member[S]] {
	return func(yield func(Member[S]) bool) {
		n := len(g.Members)
		first := int((g.turn.Add(1) - 1) % uint64(n))
		for i := range n {
			if !yield(g.Members[(first+i)%n]) {
				return
			}
		}
	}
}

// Members returns those of a shared subscription, by its whole filter.
func (x *Index[S]) Members(filter string) []Member[S] {
	x.mu.RLock()
	defer x.mu.RUnlock()
	if s := x.shares.get(filter); s != nil {
		return s.all()
	}
	return nil
}

func (s *share[S]) all() []Member[S] {
	members := make([]Member[S], len(s.members.list))
	for i, m := range s.members.list {
		members[i] = Member[S]{m.who, m.options}
	}
	return members
}

func (s *share[S]) group() *Group[S] {
	return &Group[S]{Filter: s.filter, Members: s.all(), turn: &s.turn}
}

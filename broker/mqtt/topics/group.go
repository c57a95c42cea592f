package topics

import (
	"iter"
	"sync/atomic"
)

// Group is a shared subscription, with its members at the time of the match. A message goes to
// one of them (MQTT 5, 4.8.2).
type Group[S comparable] struct {
	Filter  string // the whole one, with $share and the name
	Members []Member[S]
	next    *atomic.Uint64 // shared by all results
}

// Member is a member of a shared subscription.
type Member[S comparable] struct {
	Who S
	Options
}

// RoundRobin returns every member once, beginning with the next one in turn. Each iteration
// advances the turn, whichever result it uses.
func (g *Group[S]) RoundRobin() iter.Seq[Member[S]] {
	return func(yield func(Member[S]) bool) {
		n := len(g.Members)
		first := int((g.next.Add(1) - 1) % uint64(n))
		for i := range n {
			if !yield(g.Members[(first+i)%n]) {
				return
			}
		}
	}
}

// Members returns the members of a shared subscription, by its whole filter.
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
	return &Group[S]{Filter: s.filter, Members: s.all(), next: &s.next}
}

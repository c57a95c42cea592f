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

func (s *share[S]) group() *Group[S] {
	g := &Group[S]{Filter: s.filter, Members: make([]Member[S], len(s.members.list)), turn: &s.turn}
	for i, m := range s.members.list {
		g.Members[i] = Member[S]{m.who, m.options}
	}
	return g
}

package client

import (
	"hash/fnv"
	"slices"
)

// maxSubscribers bounds the number of connections that receive messages.
const maxSubscribers = 16

// assignment is how a filter is received: by the subscription to filter, itself or one that
// covers it, of a subscriber.
type assignment struct {
	filter     string
	subscriber int
}

// assignFilters assigns every filter to a subscription. The result depends on the set of
// filters only, so that a restarted service finds its sessions as it left them. Filters that
// need more than maxSubscribers have no assignment.
//
// If the broker supports subscription identifiers, each filter is subscribed to by the first
// subscriber. Otherwise covered filters share the subscription that covers them, and those
// that overlap are assigned to different subscribers.
func assignFilters(filters []string, identified bool) map[string]assignment {
	filters = slices.Sorted(slices.Values(filters))
	assignments := make(map[string]assignment, len(filters))
	if identified {
		assignIdentifiers(filters, assignments)
		return assignments
	}
	roots, covered := splitCovered(filters)
	separate(roots, assignments)
	for filter, root := range covered {
		if p, ok := assignments[root]; ok {
			assignments[filter] = p
		}
	}
	return assignments
}

// assignIdentifiers assigns each filter to the first subscriber without another filter of the
// same identifier.
func assignIdentifiers(filters []string, assignments map[string]assignment) {
	type slot struct {
		index int
		id    uint32
	}
	taken := make(map[slot]bool, len(filters))
	for _, f := range filters {
		for s := (slot{0, identifier(f)}); s.index < maxSubscribers; s.index++ {
			if !taken[s] {
				taken[s], assignments[f] = true, assignment{f, s.index}
				break
			}
		}
	}
}

// identifier returns the subscription identifier of a filter, from 1 to 268435455. It is the
// same in every run, because messages queued in a session may carry it from an earlier one.
func identifier(filter string) uint32 {
	h := fnv.New64a()
	h.Write([]byte(filter))
	return uint32(h.Sum64()%(1<<28-1)) + 1
}

// splitCovered separates the filters to subscribe to from those that one of them covers.
func splitCovered(filters []string) (roots []string, covered map[string]string) {
	var wildcards []string
	for _, f := range filters {
		if hasWildcard(f) {
			wildcards = append(wildcards, f)
		}
	}
	covered = map[string]string{}
	for _, f := range filters {
		if root, ok := findCover(wildcards, f); ok {
			covered[f] = root
		} else {
			roots = append(roots, f)
		}
	}
	return roots, covered
}

// findCover returns a filter that covers f and is not covered itself. Of filters that cover
// each other, the first one is used.
func findCover(wildcards []string, f string) (root string, ok bool) {
	root = f
	for _, w := range wildcards {
		if w != root && Covers(w, root) && (!Covers(root, w) || w < root) {
			root = w
		}
	}
	return root, root != f
}

// separate assigns filters to the first subscriber without overlap. Filters without wildcards,
// of which there may be many, do not overlap each other.
func separate(roots []string, assignments map[string]assignment) {
	var subscribers [maxSubscribers]struct{ wildcards, exact []string }
	for _, f := range roots {
		overlaps := func(other string) bool { return Overlap(f, other) }
		for i := range subscribers {
			l := &subscribers[i]
			switch {
			case slices.ContainsFunc(l.wildcards, overlaps):
				continue
			case !hasWildcard(f):
				l.exact = append(l.exact, f)
			case slices.ContainsFunc(l.exact, overlaps):
				continue
			default:
				l.wildcards = append(l.wildcards, f)
			}
			assignments[f] = assignment{f, i}
			break
		}
	}
}

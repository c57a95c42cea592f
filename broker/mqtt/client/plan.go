package client

import (
	"hash/fnv"
	"slices"
)

// maxLanes is how many connections there are at most to receive messages.
const maxLanes = 16

// place is where the messages of a filter come from: the filter that is
// subscribed to for it, itself or one that covers it, and on which lane.
type place struct {
	root string
	lane int
}

// arrange gives every filter its place; it depends on the set of filters only,
// so that a service that starts again finds its sessions as it left them. Filters
// that had to be left out, for want of lanes, have none.
//
// Where a broker tells by which subscription it sends a message, each filter is
// subscribed to on the first lane. Otherwise nothing is subscribed to twice:
// filters that another one covers get their messages through that one, and those
// that remain and overlap are put on different lanes.
func arrange(filters []string, identified bool) map[string]place {
	filters = slices.Sorted(slices.Values(filters))
	places := make(map[string]place, len(filters))
	if identified {
		identify(filters, places)
		return places
	}
	roots, covered := split(filters)
	spread(roots, places)
	for filter, root := range covered {
		if p, ok := places[root]; ok {
			places[filter] = p
		}
	}
	return places
}

// identify gives each filter a lane on which no other one has its identifier.
func identify(filters []string, places map[string]place) {
	type slot struct {
		lane int
		id   uint32
	}
	taken := make(map[slot]bool, len(filters))
	for _, f := range filters {
		for s := (slot{0, identifier(f)}); s.lane < maxLanes; s.lane++ {
			if !taken[s] {
				taken[s], places[f] = true, place{f, s.lane}
				break
			}
		}
	}
}

// identifier is the subscription identifier of a filter, from 1 to 268435455. It
// is the same in every run, because messages may wait in a session that were
// marked with it by an earlier one.
func identifier(filter string) uint32 {
	h := fnv.New64a()
	h.Write([]byte(filter))
	return uint32(h.Sum64()%(1<<28-1)) + 1
}

// split tells the filters that are to be subscribed to from those that one of
// them covers.
func split(filters []string) (roots []string, covered map[string]string) {
	var wide []string
	for _, f := range filters {
		if wild(f) {
			wide = append(wide, f)
		}
	}
	covered = map[string]string{}
	for _, f := range filters {
		if root, ok := cover(wide, f); ok {
			covered[f] = root
		} else {
			roots = append(roots, f)
		}
	}
	return roots, covered
}

// cover finds a filter that covers f and is covered by no other one. Of those
// that cover each other, the first counts as the one that covers.
func cover(wide []string, f string) (root string, ok bool) {
	root = f
	for _, w := range wide {
		if w != root && Covers(w, root) && (!Covers(root, w) || w < root) {
			root = w
		}
	}
	return root, root != f
}

// spread puts filters on the first lane where they overlap none of those before.
// Filters without a wildcard, of which there may be many, overlap no other one
// of their kind.
func spread(roots []string, places map[string]place) {
	var lanes [maxLanes]struct{ wide, exact []string }
	for _, f := range roots {
		clash := func(other string) bool { return Overlap(f, other) }
		for i := range lanes {
			l := &lanes[i]
			switch {
			case slices.ContainsFunc(l.wide, clash):
				continue
			case !wild(f):
				l.exact = append(l.exact, f)
			case slices.ContainsFunc(l.exact, clash):
				continue
			default:
				l.wide = append(l.wide, f)
			}
			places[f] = place{f, i}
			break
		}
	}
}

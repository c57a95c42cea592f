package topics

import "slices"

// entry returns the entry of a filter without its share, or nil.
func (x *Index[S]) entry(inner string) *entry[S] {
	if hasWildcard(inner) {
		return x.wildcards.get(inner)
	}
	return x.literal.get(inner)
}

// getOrCreate returns the entry of a filter, created if necessary.
func (x *Index[S]) getOrCreate(inner string) *entry[S] {
	if e := x.entry(inner); e != nil {
		return e
	}
	e := new(entry[S])
	if hasWildcard(inner) {
		x.wildcards.put(inner, e)
	} else {
		x.literal.put(inner, e)
	}
	return e
}

// subscribers returns the members of s or, if it is nil, the direct subscribers.
func (e *entry[S]) subscribers(s *share[S]) *subscriberList[S] {
	if s != nil {
		return &s.members
	}
	return &e.members
}

// getOrCreateShare returns the shared subscription of a filter, created if necessary.
func (x *Index[S]) getOrCreateShare(filter string, e *entry[S]) *share[S] {
	if s := x.shares.get(filter); s != nil {
		return s
	}
	s := &share[S]{filter: filter}
	x.shares.put(filter, s)
	e.shares = append(e.shares, s)
	return s
}

// removeEmptyShare removes a shared subscription without members.
func (x *Index[S]) removeEmptyShare(s *share[S], e *entry[S]) {
	if len(s.members.list) > 0 {
		return
	}
	x.shares.remove(s.filter)
	e.shares = slices.DeleteFunc(e.shares, func(other *share[S]) bool { return other == s })
}

// removeEmptyEntry removes an entry without subscriptions.
func (x *Index[S]) removeEmptyEntry(inner string, e *entry[S]) {
	switch {
	case len(e.members.list) > 0 || len(e.shares) > 0:
	case hasWildcard(inner):
		x.wildcards.remove(inner)
	default:
		x.literal.remove(inner)
	}
}

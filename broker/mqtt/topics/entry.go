package topics

import "slices"

// entry finds what is subscribed to a filter without share; nil for nothing.
func (x *Index[S]) entry(inner string) *entry[S] {
	if wild(inner) {
		return x.wild.get(inner)
	}
	return x.literal.get(inner)
}

// made finds it, or makes it.
func (x *Index[S]) made(inner string) *entry[S] {
	if e := x.entry(inner); e != nil {
		return e
	}
	e := new(entry[S])
	if wild(inner) {
		x.wild.put(inner, e)
	} else {
		x.literal.put(inner, e)
	}
	return e
}

// roster gives the members of a shared subscription to the entry's filter, or,
// for nil, those who subscribed to it themselves.
func (e *entry[S]) roster(s *share[S]) *roster[S] {
	if s != nil {
		return &s.members
	}
	return &e.members
}

// madeShare finds the shared subscription with a whole filter, or makes it.
func (x *Index[S]) madeShare(filter string, e *entry[S]) *share[S] {
	if s := x.shares.get(filter); s != nil {
		return s
	}
	s := &share[S]{filter: filter}
	x.shares.put(filter, s)
	e.shares = append(e.shares, s)
	return s
}

// tidyShare removes a shared subscription that nobody is left in.
func (x *Index[S]) tidyShare(s *share[S], e *entry[S]) {
	if len(s.members.list) > 0 {
		return
	}
	x.shares.remove(s.filter)
	e.shares = slices.DeleteFunc(e.shares, func(other *share[S]) bool { return other == s })
}

// tidy removes an entry that nobody is left in.
func (x *Index[S]) tidy(inner string, e *entry[S]) {
	switch {
	case len(e.members.list) > 0 || len(e.shares) > 0:
	case wild(inner):
		x.wild.remove(inner)
	default:
		x.literal.remove(inner)
	}
}

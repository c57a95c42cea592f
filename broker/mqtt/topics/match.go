package topics

import "slices"

// Matches is who is subscribed to a topic. It is never changed, so it may be
// kept and shared.
type Matches[S comparable] struct {
	Subscribers []Subscriber[S] // each of them once, shared subscriptions left out
	Groups      []*Group[S]     // the shared subscriptions
}

// Terms are how a message reaches a subscriber.
type Terms struct {
	QoS               byte     // the highest of all subscriptions that match [MQTT-3.3.4-2]
	RetainAsPublished bool     // at least one of them asks for it
	IDs               []uint32 // their identifiers, ascending [MQTT-3.3.4-3]
}

// Subscriber is one with all its subscriptions that match. The Terms embedded
// are those for messages that somebody else has published.
type Subscriber[S comparable] struct {
	Who S
	Terms
	noLocal bool   // at least one of the subscriptions is No Local
	own     *Terms // by the others; counts where noLocal, nil for none
}

// Own gives the terms for messages that the subscriber published itself. It has
// none where all its subscriptions are No Local [MQTT-3.8.3-3].
func (s *Subscriber[S]) Own() (t Terms, ok bool) {
	if !s.noLocal {
		return s.Terms, true
	}
	if s.own == nil {
		return Terms{}, false
	}
	return *s.own, true
}

// Match gives who is subscribed to a topic; it is empty, never nil, where nobody
// is. The cost grows with the levels of the topic and with who is found, not
// with who is subscribed.
func (x *Index[S]) Match(topic string) *Matches[S] {
	var room [8]*entry[S]
	var kept [8]*Matches[S]
	found := kept[:0]
	x.mu.RLock()
	entries := x.wild.match(topic, room[:0])
	if e := x.literal.get(topic); e != nil {
		entries = append(entries, e)
	}
	for _, e := range entries {
		found = append(found, e.matches())
	}
	x.mu.RUnlock()
	if len(found) == 0 {
		return &x.nobody
	}
	return merged(found)
}

// matches gives what an entry adds to a result. The index is locked for reading
// at least, so that nobody changes the entry.
func (e *entry[S]) matches() *Matches[S] {
	if m := e.ready.Load(); m != nil {
		return m
	}
	m := new(Matches[S])
	if n := len(e.members.list); n > 0 {
		m.Subscribers = make([]Subscriber[S], n)
	}
	for i := range e.members.list {
		m.Subscribers[i] = e.members.list[i].subscriber()
	}
	if n := len(e.shares); n > 0 {
		m.Groups = make([]*Group[S], n)
	}
	for i, s := range e.shares {
		m.Groups[i] = s.group()
	}
	e.ready.Store(m)
	return m
}

func (m *member[S]) subscriber() Subscriber[S] {
	o := m.options
	t := Terms{QoS: o.QoS, RetainAsPublished: o.RetainAsPublished}
	if o.ID != 0 {
		t.IDs = []uint32{o.ID}
	}
	return Subscriber[S]{Who: m.who, Terms: t, noLocal: o.NoLocal}
}

// with gives the terms of two sets of subscriptions together.
func (t Terms) with(u Terms) Terms {
	t.QoS = max(t.QoS, u.QoS)
	t.RetainAsPublished = t.RetainAsPublished || u.RetainAsPublished
	switch {
	case len(u.IDs) == 0:
	case len(t.IDs) == 0:
		t.IDs = u.IDs
	default:
		t.IDs = slices.Concat(t.IDs, u.IDs)
		slices.Sort(t.IDs)
	}
	return t
}

// with gives one subscriber's two sets of subscriptions together.
func (s Subscriber[S]) with(u Subscriber[S]) Subscriber[S] {
	if s.noLocal || u.noLocal {
		s.own = together(&s, &u)
		s.noLocal = true
	}
	s.Terms = s.Terms.with(u.Terms)
	return s
}

// together gives the terms for own messages of both; nil for none.
func together[S comparable](s, u *Subscriber[S]) *Terms {
	a, first := s.Own()
	b, second := u.Own()
	switch {
	case first && second:
		a = a.with(b)
	case second:
		a = b
	case !first:
		return nil
	}
	return &a
}

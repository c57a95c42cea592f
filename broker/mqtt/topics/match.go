package topics

import "slices"

// Matches are the subscriptions to a topic. They are immutable.
type Matches[S comparable] struct {
	Subscribers []Subscriber[S] // each once, without shared subscriptions
	Groups      []*Group[S]     // shared subscriptions
}

// Terms determine how a message is delivered to a subscriber.
type Terms struct {
	QoS               byte     // the highest of all matching subscriptions [MQTT-3.3.4-2]
	RetainAsPublished bool     // set in at least one of them
	IDs               []uint32 // their identifiers, ascending [MQTT-3.3.4-3]
}

// Subscriber is a subscriber with all its matching subscriptions. The embedded Terms apply to
// messages of other publishers.
type Subscriber[S comparable] struct {
	Who S
	Terms
	noLocal bool   // at least one of the subscriptions is No Local
	own     *Terms // of the others, if noLocal is set; nil for none
}

// Own returns the terms for the subscriber's own messages, and false if all its subscriptions
// are No Local [MQTT-3.8.3-3].
func (s *Subscriber[S]) Own() (t Terms, ok bool) {
	if !s.noLocal {
		return s.Terms, true
	}
	if s.own == nil {
		return Terms{}, false
	}
	return *s.own, true
}

// Match returns the subscriptions to a topic, never nil. The cost grows with the levels of the
// topic and the number of results, not with the number of subscriptions.
func (x *Index[S]) Match(topic string) *Matches[S] {
	var buf [8]*entry[S]
	var resultBuf [8]*Matches[S]
	found := resultBuf[:0]
	x.mu.RLock()
	entries := x.wildcards.match(topic, buf[:0])
	if e := x.literal.get(topic); e != nil {
		entries = append(entries, e)
	}
	for _, e := range entries {
		found = append(found, e.result())
	}
	x.mu.RUnlock()
	if len(found) == 0 {
		return &x.empty
	}
	return merge(found)
}

// result returns the entry's part of a result. x.mu must be held, at least for reading.
func (e *entry[S]) result() *Matches[S] {
	if m := e.cached.Load(); m != nil {
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
	e.cached.Store(m)
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

// merge combines the terms of two sets of subscriptions.
func (t Terms) merge(u Terms) Terms {
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

// merge combines two sets of subscriptions of one subscriber.
func (s Subscriber[S]) merge(u Subscriber[S]) Subscriber[S] {
	if s.noLocal || u.noLocal {
		s.own = mergeOwn(&s, &u)
		s.noLocal = true
	}
	s.Terms = s.Terms.merge(u.Terms)
	return s
}

// mergeOwn combines the terms for own messages; nil for none.
func mergeOwn[S comparable](s, u *Subscriber[S]) *Terms {
	a, first := s.Own()
	b, second := u.Own()
	switch {
	case first && second:
		a = a.merge(b)
	case second:
		a = b
	case !first:
		return nil
	}
	return &a
}

package topics

// subscriberList holds the subscriptions to one filter, in no order. The zero value is empty.
type subscriberList[S comparable] struct {
	list      []member[S]
	positions *table[S, int] // indexes in list, if there are many
}

// member is a subscription in a list.
type member[S comparable] struct {
	who      S
	sequence uint64 // incremented with every subscription
	options  Options
}

// tableThreshold is the number of members above which a table is faster.
const tableThreshold = 16

// find returns the index of a subscriber, or -1.
func (r *subscriberList[S]) find(who S) int {
	if r.positions != nil {
		if i, ok := r.positions.m[who]; ok {
			return i
		}
		return -1
	}
	for i := range r.list {
		if r.list[i].who == who {
			return i
		}
	}
	return -1
}

// add appends a subscriber that is not in the list.
func (r *subscriberList[S]) add(m member[S]) {
	r.list = append(r.list, m)
	switch {
	case r.positions != nil:
		r.positions.put(m.who, len(r.list)-1)
	case len(r.list) > tableThreshold:
		r.positions = new(table[S, int])
		for i := range r.list {
			r.positions.put(r.list[i].who, i)
		}
	}
}

// remove removes member i; the last one takes its place.
func (r *subscriberList[S]) remove(i int) {
	last := len(r.list) - 1
	who, moved := r.list[i].who, r.list[last]
	r.list[i], r.list[last] = moved, member[S]{}
	r.list = r.list[:last]
	if cap(r.list) > tableThreshold && last < cap(r.list)/4 {
		r.list = append(make([]member[S], 0, last), r.list...)
	}
	if r.positions == nil {
		return
	}
	if last <= tableThreshold/2 {
		r.positions = nil
		return
	}
	r.positions.put(moved.who, i)
	r.positions.remove(who)
}

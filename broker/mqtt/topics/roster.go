package topics

// roster is who subscribed to one filter, each once, in no order. Its zero
// value is empty.
type roster[S comparable] struct {
	list []member[S]
	at   *table[S, int] // places in list, while there are many
}

// member is a subscription as its roster keeps it.
type member[S comparable] struct {
	who     S
	since   uint64 // grows from subscription to subscription
	options Options
}

// many is the number of members from which on a search by table pays.
const many = 16

// find gives somebody's place in the list, or -1.
func (r *roster[S]) find(who S) int {
	if r.at != nil {
		if i, ok := r.at.m[who]; ok {
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

// add appends somebody who is not in the list.
func (r *roster[S]) add(m member[S]) {
	r.list = append(r.list, m)
	switch {
	case r.at != nil:
		r.at.put(m.who, len(r.list)-1)
	case len(r.list) > many:
		r.at = new(table[S, int])
		for i := range r.list {
			r.at.put(r.list[i].who, i)
		}
	}
}

// remove takes out the member at a place, where the last one moves to.
func (r *roster[S]) remove(i int) {
	last := len(r.list) - 1
	who, moved := r.list[i].who, r.list[last]
	r.list[i], r.list[last] = moved, member[S]{}
	r.list = r.list[:last]
	if cap(r.list) > many && last < cap(r.list)/4 {
		r.list = append(make([]member[S], 0, last), r.list...)
	}
	if r.at == nil {
		return
	}
	if last <= many/2 {
		r.at = nil
		return
	}
	r.at.put(moved.who, i)
	r.at.remove(who)
}

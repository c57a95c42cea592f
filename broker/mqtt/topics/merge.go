package topics

import "slices"

// merge combines results; a single one is returned as it is.
func merge[S comparable](found []*Matches[S]) *Matches[S] {
	if len(found) == 1 {
		return found[0]
	}
	m := new(Matches[S])
	lists := found[:0]
	for _, f := range found {
		m.Groups = append(m.Groups, f.Groups...)
		if len(f.Subscribers) > 0 {
			lists = append(lists, f)
		}
	}
	m.Subscribers = union(lists)
	return m
}

// union returns every subscriber once. The longest list is copied, the others are merged into
// the copy.
func union[S comparable](lists []*Matches[S]) []Subscriber[S] {
	if len(lists) == 0 {
		return nil
	}
	total, longest := 0, 0
	for i, l := range lists {
		total += len(l.Subscribers)
		if len(l.Subscribers) > len(lists[longest].Subscribers) {
			longest = i
		}
	}
	base := lists[longest].Subscribers
	if total == len(base) {
		return base
	}
	u := subscriberUnion[S]{list: append(make([]Subscriber[S], 0, total), base...)}
	if total*(total-len(base)) > maxComparisons {
		u.index(total)
	}
	for i, l := range lists {
		if i != longest {
			u.addAll(l.Subscribers)
		}
	}
	return slices.Clip(u.list)
}

// maxComparisons is the number of comparisons that cost less than filling a map.
const maxComparisons = 4096

// subscriberUnion is a union under construction.
type subscriberUnion[S comparable] struct {
	list      []Subscriber[S]
	positions map[S]int // indexes in list; nil while a linear search is cheaper
}

func (u *subscriberUnion[S]) index(total int) {
	u.positions = make(map[S]int, total)
	for i := range u.list {
		u.positions[u.list[i].Who] = i
	}
}

// addAll adds subscribers, which must be distinct.
func (u *subscriberUnion[S]) addAll(subscribers []Subscriber[S]) {
	for i := range subscribers {
		s := &subscribers[i]
		if at := u.find(s.Who); at >= 0 {
			u.list[at] = u.list[at].merge(*s)
			continue
		}
		if u.positions != nil {
			u.positions[s.Who] = len(u.list)
		}
		u.list = append(u.list, *s)
	}
}

// find returns the index of a subscriber, or -1.
func (u *subscriberUnion[S]) find(who S) int {
	if u.positions != nil {
		if i, ok := u.positions[who]; ok {
			return i
		}
		return -1
	}
	for i := range u.list {
		if u.list[i].Who == who {
			return i
		}
	}
	return -1
}

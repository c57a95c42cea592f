package topics

import "slices"

// merged makes one result of many; a single one it gives as it is.
func merged[S comparable](found []*Matches[S]) *Matches[S] {
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

// union lists everybody once. The longest list is copied whole; the others,
// short as a rule, are put into the copy.
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
	u := unionOf[S]{list: append(make([]Subscriber[S], 0, total), base...)}
	if total*(total-len(base)) > scanned {
		u.index(total)
	}
	for i, l := range lists {
		if i != longest {
			u.addAll(l.Subscribers)
		}
	}
	return slices.Clip(u.list)
}

// scanned is the number of comparisons that cost less than to fill a map.
const scanned = 4096

// unionOf is a list of subscribers in the making.
type unionOf[S comparable] struct {
	list []Subscriber[S]
	at   map[S]int // places in list; nil where they are searched one by one
}

func (u *unionOf[S]) index(total int) {
	u.at = make(map[S]int, total)
	for i := range u.list {
		u.at[u.list[i].Who] = i
	}
}

// addAll adds subscribers that are different among each other.
func (u *unionOf[S]) addAll(subscribers []Subscriber[S]) {
	for i := range subscribers {
		s := &subscribers[i]
		if at := u.find(s.Who); at >= 0 {
			u.list[at] = u.list[at].with(*s)
			continue
		}
		if u.at != nil {
			u.at[s.Who] = len(u.list)
		}
		u.list = append(u.list, *s)
	}
}

// find gives somebody's place, or -1.
func (u *unionOf[S]) find(who S) int {
	if u.at != nil {
		if i, ok := u.at[who]; ok {
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

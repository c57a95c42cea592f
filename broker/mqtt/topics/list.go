package topics

import "github.com/tidwall/btree"

// Entry is a subscription.
type Entry[S comparable] struct {
	Filter string // the whole one
	Who    S
	Options
}

// List returns a page of the subscriptions whose filter is accepted (all if accept is nil),
// ordered by filter and age, and their total number. A negative count means no limit.
//
// It works on a snapshot and calls accept without a lock. Without accept, the cost does not
// depend on the offset.
func (x *Index[S]) List(offset, count int, accept func(filter string) bool) (total int, part []Entry[S]) {
	x.mu.Lock()
	all := x.ordered.Copy()
	x.mu.Unlock()
	offset = max(offset, 0)
	if accept != nil {
		return listAccepted(all, offset, count, accept)
	}
	first, ok := all.GetAt(offset)
	if !ok || count == 0 {
		return all.Len(), nil
	}
	all.Ascend(first, func(l *listed[S]) bool {
		part = append(part, l.Entry)
		return len(part) != count
	})
	return all.Len(), part
}

// listAccepted scans all subscriptions and calls accept once for each filter.
func listAccepted[S comparable](all *btree.BTreeG[*listed[S]], offset, count int, accept func(string) bool) (total int, part []Entry[S]) {
	filter, taken := "", false
	all.Scan(func(l *listed[S]) bool {
		if l.Filter != filter {
			filter, taken = l.Filter, accept(l.Filter)
		}
		if !taken {
			return true
		}
		if total >= offset && (count < 0 || len(part) < count) {
			part = append(part, l.Entry)
		}
		total++
		return true
	})
	return total, part
}

package engine

import (
	"container/heap"
	"time"
)

// due is the entry of an item in a dueHeap.
type due struct {
	at    int64 // epoch milliseconds
	place int   // in the heap, counted from 1; 0 for none
}

// dueItem is what can be in a dueHeap.
type dueItem interface {
	comparable
	dueEntry() *due
}

// dueHeap has items by the time at which they are due. An item is in it at most once. Its methods
// need a lock of the user's, which guards the entries too.
type dueHeap[T dueItem] struct{ items dueItems[T] }

// set sets the time of an item, which may be new. It reports whether it is the next one.
func (h *dueHeap[T]) set(item T, at int64) (isNext bool) {
	d := item.dueEntry()
	d.at = at
	if d.place == 0 {
		heap.Push(&h.items, item)
	} else {
		heap.Fix(&h.items, d.place-1)
	}
	return h.items[0] == item
}

// remove removes an item, if it is there.
func (h *dueHeap[T]) remove(item T) {
	if d := item.dueEntry(); d.place > 0 {
		heap.Remove(&h.items, d.place-1)
	}
}

// next returns the next item if it is due.
func (h *dueHeap[T]) next(now int64) (item T, ok bool) {
	if len(h.items) == 0 || h.items[0].dueEntry().at > now {
		return item, false
	}
	return h.items[0], true
}

// wait returns how long until the next item is due, at most a minute, because the clock of the
// configuration may differ from the timer.
func (h *dueHeap[T]) wait(now int64) time.Duration {
	if len(h.items) == 0 {
		return time.Minute
	}
	return min(time.Duration(h.items[0].dueEntry().at-now)*time.Millisecond, time.Minute)
}

// dueItems is the order of a dueHeap.
type dueItems[T dueItem] []T

func (d dueItems[T]) Len() int           { return len(d) }
func (d dueItems[T]) Less(i, j int) bool { return d[i].dueEntry().at < d[j].dueEntry().at }
func (d dueItems[T]) Swap(i, j int) {
	d[i], d[j] = d[j], d[i]
	d[i].dueEntry().place, d[j].dueEntry().place = i+1, j+1
}

func (d *dueItems[T]) Push(x any) {
	item := x.(T) //nolint:forcetypeassert // nothing else is pushed
	*d = append(*d, item)
	item.dueEntry().place = len(*d)
}

func (d *dueItems[T]) Pop() any {
	n := len(*d) - 1
	last := (*d)[n]
	var none T
	(*d)[n] = none
	*d = (*d)[:n]
	last.dueEntry().place = 0
	return last
}

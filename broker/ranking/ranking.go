// Package ranking selects the first entries of a list that is too long to be sorted.
//
// Of this module it imports broker/panics only.
package ranking

import (
	"cmp"
	"container/heap"
	"slices"
)

// Ranking keeps the first entries, in the order of compare, of all that were added. It
// needs memory for these entries only. It is not safe for concurrent use.
type Ranking[T any] struct {
	limit int
	kept  worstFirst[T]
}

// New returns a Ranking of at most limit entries. Compare returns a negative number if a
// comes before b.
func New[T any](limit int, compare func(a, b T) int) *Ranking[T] {
	return &Ranking[T]{limit: limit, kept: worstFirst[T]{compare: compare}}
}

// Add adds an entry, and drops the last one if there are too many.
func (r *Ranking[T]) Add(v T) {
	switch {
	case len(r.kept.entries) < r.limit:
		heap.Push(&r.kept, v)
	case r.limit > 0 && r.kept.compare(v, r.kept.entries[0]) < 0:
		r.kept.entries[0] = v
		heap.Fix(&r.kept, 0)
	}
}

// Sorted returns the kept entries in order. It is never nil.
func (r *Ranking[T]) Sorted() []T {
	return slices.SortedFunc(slices.Values(r.kept.entries), r.kept.compare)
}

// HighestFirst compares two entries by a figure, the higher one first, and equal ones by
// name.
func HighestFirst[N cmp.Ordered](a, b N, nameA, nameB string) int {
	return cmp.Or(cmp.Compare(b, a), cmp.Compare(nameA, nameB))
}

// worstFirst is a heap whose root is the entry that comes last.
type worstFirst[T any] struct {
	compare func(a, b T) int
	entries []T
}

func (w *worstFirst[T]) Len() int           { return len(w.entries) }
func (w *worstFirst[T]) Less(i, j int) bool { return w.compare(w.entries[i], w.entries[j]) > 0 }
func (w *worstFirst[T]) Swap(i, j int)      { w.entries[i], w.entries[j] = w.entries[j], w.entries[i] }
func (w *worstFirst[T]) Push(v any)         { w.entries = append(w.entries, v.(T)) }

// Pop removes the last entry; heap.Interface requires it.
func (w *worstFirst[T]) Pop() any {
	last := len(w.entries) - 1
	v := w.entries[last]
	w.entries = w.entries[:last]
	return v
}

// Package pages reads lists that a broker returns in parts, while others change them.
//
// Of this module it imports broker only.
package pages

import (
	"context"
	"iter"
	"slices"
	"strings"

	"signalbox/broker"
)

// How many entries are fetched by one command: few enough that the broker,
// which does nothing else meanwhile, is not held up for long.
const (
	Records      = 1000
	namesPerPage = 10000
)

// Source is a list that a broker keeps, in order of names, and returns in parts.
type Source[T any] struct {
	Name  func(T) string
	Fetch func(ctx context.Context, verbose bool, count, offset int) (total int, items []T, err error)
}

// List returns a part of a source. The first command is done now; the rest, page
// by page, when the entries are read. With a filter, which no broker knows,
// all of it is read now, because the total is that of the matches.
func List[T any](ctx context.Context, src Source[T], o broker.ListOptions[T]) (broker.Page[T], error) {
	if o.Match != nil {
		return matches(ctx, src, o)
	}
	r := &reader[T]{Source: src, verbose: !o.NamesOnly, offset: max(o.Offset, 0), left: o.Count}
	if o.Count == 0 { // which Mosquitto takes for one
		r.verbose, r.left = false, 1
	}
	first, err := r.next(ctx)
	if err != nil {
		return broker.Page[T]{}, err
	}
	if o.Count == 0 {
		return broker.Page[T]{Total: r.total, Items: Of([]T{})}, nil
	}
	return broker.Page[T]{Total: r.total, Items: r.from(ctx, first)}, nil
}

func matches[T any](ctx context.Context, src Source[T], o broker.ListOptions[T]) (broker.Page[T], error) {
	r := &reader[T]{Source: src, verbose: true, left: -1}
	return broker.Select(ctx, r.from(ctx, nil), o)
}

// Of makes the entries of a page of a slice.
func Of[T any](items []T) iter.Seq2[T, error] {
	return func(yield func(T, error) bool) {
		for _, item := range items {
			if !yield(item, nil) {
				return
			}
		}
	}
}

// reader reads a source from front to back while others change it: an entry
// that is there all the time is read exactly once. It can tell because the
// list is ordered, and because each page begins with the last entry of the one
// before.
type reader[T any] struct {
	Source[T]
	verbose bool
	offset  int // of the next entry
	left    int // entries still wanted; negative means all
	total   int // as the broker said last
	begun   bool
	last    string // name of the entry read last, once begun
	done    bool   // the last page was the end of the list
}

// from yields the entries at hand and then the rest.
func (r *reader[T]) from(ctx context.Context, items []T) iter.Seq2[T, error] {
	return func(yield func(T, error) bool) {
		for {
			for _, item := range items {
				if !yield(item, nil) {
					return
				}
			}
			var err error
			if items, err = r.next(ctx); err != nil {
				var none T
				yield(none, err)
				return
			}
			if len(items) == 0 {
				return
			}
		}
	}
}

// next reads the next page; an empty one is the end. Where the page does not
// begin with an entry that was read already, earlier entries were deleted and
// others moved forward: then it looks further back.
func (r *reader[T]) next(ctx context.Context) ([]T, error) {
	size := r.size()
	if size == 0 || r.done {
		return nil, nil
	}
	for back := r.overlap(); ; back += size {
		at := max(r.offset-back, 0)
		total, items, err := r.Fetch(ctx, r.verbose, size+r.offset-at, at)
		if err != nil {
			return nil, err
		}
		r.total, r.done = total, len(items) < size+r.offset-at
		seen, ok := r.seen(items)
		if ok || at == 0 {
			return r.take(items[seen:], at+seen, size), nil
		}
	}
}

// size is how many entries the next page may bring.
func (r *reader[T]) size() int {
	size := Records
	if !r.verbose {
		size = namesPerPage
	}
	if r.left >= 0 {
		size = min(size, r.left)
	}
	return size
}

func (r *reader[T]) overlap() int {
	if !r.begun {
		return 0
	}
	return 1
}

// seen counts the entries at the beginning of a page that were read before. It
// is not ok when there are none where there should be. Of a list that is out
// of order, which no broker is known to keep, nothing but its offsets is known.
func (r *reader[T]) seen(items []T) (n int, ok bool) {
	if !r.begun {
		return 0, true
	}
	if !slices.IsSortedFunc(items, func(a, b T) int { return strings.Compare(r.Name(a), r.Name(b)) }) {
		return 1, true
	}
	n, found := slices.BinarySearchFunc(items, r.last, func(item T, name string) int {
		return strings.Compare(r.Name(item), name)
	})
	if found {
		n++
	}
	return n, n > 0
}

// take notes what is handed out: up to size of the entries, which begin at an
// offset.
func (r *reader[T]) take(items []T, at, size int) []T {
	if len(items) > size {
		items, r.done = items[:size], false
	}
	if len(items) == 0 {
		return nil
	}
	r.offset = at + len(items)
	r.begun, r.last = true, r.Name(items[len(items)-1])
	if r.left >= 0 {
		r.left -= len(items)
	}
	return items
}

package access

import (
	"database/sql"
	"iter"
)

// batchSize is how many rows are read at once, where several tables are read side by side.
const batchSize = 256

// batched are the rows of a query in batches.
type batched[T any] struct {
	next func() ([]T, bool) // a batch is valid until the next call
	stop func()
}

// batches returns the rows of a query; columns is as for query. With a transaction beside that of the
// loader they are read ahead.
func batches[T any](l *loader, beside *sql.Tx, q string, columns func(*T) []any) *batched[T] {
	if beside == nil {
		b := &batched[T]{}
		b.next, b.stop = iter.Pull(inBatches(query(l, q, columns)))
		return b
	}
	own := &loader{ctx: l.ctx, tx: beside}
	return ahead(inBatches(query(own, q, columns)), func() {
		if l.err == nil {
			l.err = own.err
		}
	})
}

// inBatches yields rows in two buffers in turn: a batch is valid until the next but one is yielded.
func inBatches[T any](rows iter.Seq[T]) iter.Seq[[]T] {
	return func(yield func([]T) bool) {
		current, other := make([]T, 0, batchSize), make([]T, 0, batchSize)
		for v := range rows {
			if current = append(current, v); len(current) < batchSize {
				continue
			}
			if !yield(current) {
				return
			}
			current, other = other[:0], current
		}
		if len(current) > 0 {
			yield(current)
		}
	}
}

// ahead reads the batches on a goroutine, one ahead of the caller. It ends at the last row or with stop;
// then ended is called, once, by next or stop.
func ahead[T any](rows iter.Seq[[]T], ended func()) *batched[T] {
	read, stopped := make(chan []T), make(chan struct{})
	go func() {
		defer close(read)
		for batch := range rows {
			select {
			case read <- batch:
			case <-stopped:
				return
			}
		}
	}()
	stop := func() {
		select {
		case <-stopped:
		default:
			close(stopped)
			for range read { //nolint:revive // until the goroutine has ended
			}
			ended()
		}
	}
	next := func() ([]T, bool) {
		batch, ok := <-read
		if !ok {
			stop()
		}
		return batch, ok
	}
	return &batched[T]{next: next, stop: stop}
}

// all yields the rows one by one.
func (b *batched[T]) all() iter.Seq[T] {
	return func(yield func(T) bool) {
		for batch, ok := b.next(); ok; batch, ok = b.next() {
			for _, v := range batch {
				if !yield(v) {
					return
				}
			}
		}
	}
}

package storage

import (
	"context"
	"sync"
	"sync/atomic"
)

// groupWeight bounds the entries of one transaction, in bytes.
const groupWeight = 4 << 20

// MaxPending bounds what is submitted and neither committed nor refused, in bytes.
const MaxPending = 64 << 20

// Submission is an entry, or a task that the committer runs alone between two
// transactions. Weight is its share of MaxPending, in bytes.
type Submission[E any] struct {
	Entry  E
	Task   func() // instead of an entry
	Weight int
}

// inbox holds what was submitted, in order. Submitting does not block: the
// limits hold because callers respect Full, WaitForCapacity or Reserve.
type inbox[E any] struct {
	wake   chan struct{} // buffered; has an element when there is something to do
	limits Limits

	mu      sync.Mutex
	notFull chan struct{} // closed when full becomes false; nil while no caller waits
	first   []E           // precedes waiting
	waiting []Submission[E]
	head    int // index in waiting; those before it were taken
	entries int // submitted and not done
	weight  int // of those entries, of tasks, and reserved
	closed  bool

	full atomic.Bool // the limits are reached; written with mu held
}

// batch is what is taken from the inbox at once: the entries of one
// transaction, or a task. Both are nil if nothing waits.
type batch[E any] struct {
	group           []E
	task            func()
	entries, weight int
	ended           bool // nothing waits, and the inbox is closed
}

func newInbox[E any](l Limits) *inbox[E] {
	if l.Pending == 0 {
		l.Pending = MaxPending
	}
	return &inbox[E]{wake: make(chan struct{}, 1), limits: l}
}

// put appends a submission, whose weight may be reserved, unless the inbox is
// closed.
func (b *inbox[E]) put(s Submission[E], reserved bool) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	weight := s.Weight
	if reserved {
		weight = 0
	}
	if b.closed {
		b.count(0, weight-s.Weight)
		return false
	}
	b.waiting = append(b.waiting, s)
	b.count(s.entryCount(), weight)
	b.notify()
	return true
}

// entryCount returns how many entries a submission counts as.
func (s *Submission[E]) entryCount() int {
	if s.Task != nil {
		return 0
	}
	return 1
}

// putFirst adds an entry that is part of the next group, is not bounded and is
// accepted even after close.
func (b *inbox[E]) putFirst(e E) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.first = append(b.first, e)
	b.notify()
}

// take returns a task, or as many entries as one transaction may have; at least
// one if any waits.
func (b *inbox[E]) take() (t batch[E]) {
	b.mu.Lock()
	defer b.mu.Unlock()
	end := b.head
	for end < len(b.waiting) && end-b.head < b.limits.GroupEntries && t.weight < groupWeight && b.waiting[end].Task == nil {
		t.weight += b.waiting[end].Weight
		end++
	}
	t.entries = end - b.head
	switch {
	case t.entries+len(b.first) > 0:
		t.group = append(make([]E, 0, len(b.first)+t.entries), b.first...)
		for i := range b.waiting[b.head:end] {
			t.group = append(t.group, b.waiting[b.head+i].Entry)
		}
		clear(b.first)
		b.first = b.first[:0]
	case end < len(b.waiting):
		t.task, t.weight = b.waiting[end].Task, b.waiting[end].Weight
		end++
	default:
		t.ended = b.closed
		return t
	}
	clear(b.waiting[b.head:end])
	b.head = end
	b.compact()
	return t
}

// compact moves the waiting submissions to the front. The caller holds mu.
func (b *inbox[E]) compact() {
	if b.head >= len(b.waiting)/2 {
		n := copy(b.waiting, b.waiting[b.head:])
		clear(b.waiting[n:])
		b.waiting, b.head = b.waiting[:n], 0
	}
}

// done releases the capacity of a batch.
func (b *inbox[E]) done(t batch[E]) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.count(-t.entries, -t.weight)
}

// count adds to the pending entries and weight. The caller holds mu.
func (b *inbox[E]) count(entries, weight int) {
	b.entries += entries
	b.weight += weight
	full := b.limits.Entries > 0 && b.entries >= b.limits.Entries || b.weight >= b.limits.Pending
	if full != b.full.Load() {
		b.full.Store(full)
		if !full {
			b.wakeWaiting()
		}
	}
}

// wakeWaiting wakes all callers that wait for capacity. The caller holds mu.
func (b *inbox[E]) wakeWaiting() {
	if b.notFull != nil {
		close(b.notFull)
		b.notFull = nil
	}
}

// tryReserve reserves weight unless the inbox is full; then it returns the
// channel to wait for. It reports whether the inbox is closed.
func (b *inbox[E]) tryReserve(weight int) (notFull <-chan struct{}, closed bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.closed {
		return nil, true
	}
	if !b.full.Load() {
		b.count(0, weight)
		return nil, false
	}
	if b.notFull == nil {
		b.notFull = make(chan struct{})
	}
	return b.notFull, false
}

// reserve waits for capacity and reserves it. It reports whether the inbox is
// closed.
func (b *inbox[E]) reserve(ctx context.Context, weight int) (closed bool, err error) {
	for {
		notFull, closed := b.tryReserve(weight)
		if notFull == nil {
			return closed, nil
		}
		select {
		case <-notFull:
		case <-ctx.Done():
			return false, context.Cause(ctx)
		}
	}
}

// close refuses later submissions, and callers that wait for capacity.
func (b *inbox[E]) close() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.closed = true
	b.wakeWaiting()
	b.notify()
}

// notify wakes the committer without blocking.
func (b *inbox[E]) notify() {
	select {
	case b.wake <- struct{}{}:
	default: // a wake-up is pending
	}
}

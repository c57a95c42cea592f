package replica

import (
	"sync"
	"sync/atomic"

	"signalbox/broker/embedded/engine"
)

// Bounds of one batch, and of the changes that may be pending before WaitForCapacity
// waits. A weight is in bytes, and not less than the length of the encoding.
const (
	groupChanges      = 1024
	groupWeight       = 384 << 10
	maxPendingChanges = 16 << 10
	maxPendingWeight  = 64 << 20
)

// queue holds the changes that were submitted to a mode, in order. put does not wait, as
// Submit must not; instead, the callers of Submit call WaitForCapacity before.
type queue struct {
	wake chan struct{} // holds one when changes were added or the queue was closed

	mu      sync.Mutex
	space   *sync.Cond // on mu, signalled when WaitForCapacity may return
	waiting []submitted
	head    int // index in waiting of the first that was not taken
	changes int // pending: put and not done
	weight  int // of pending changes
	stalled bool
	closed  bool

	full atomic.Bool // changes or weight are above their bounds
}

type submitted struct {
	changes *engine.Changes
	weight  int
}

func newQueue() *queue {
	q := &queue{wake: make(chan struct{}, 1)}
	q.space = sync.NewCond(&q.mu)
	return q
}

// put adds changes. It returns false if the queue is full and stalled.
func (q *queue) put(c *engine.Changes) bool {
	s := submitted{c, weigh(c)}
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.stalled && q.full.Load() {
		return false
	}
	q.waiting = append(q.waiting, s)
	q.count(1, s.weight)
	q.notify()
	return true
}

// fill waits for changes and moves as many to the batch as it may have. It returns false
// when the queue is closed and empty.
func (q *queue) fill(b *batch, changes, weight int) bool {
	for !q.take(b, changes, weight) {
		if q.ended() {
			return false
		}
		<-q.wake
	}
	return true
}

// take moves what fits into a batch, at least one change if there is any, and reports
// whether there was one.
func (q *queue) take(b *batch, changes, weight int) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	for q.head < len(q.waiting) && len(b.group) < changes {
		next := &q.waiting[q.head]
		if len(b.group) > 0 && b.weight+next.weight > weight {
			break
		}
		b.group = append(b.group, next.changes)
		b.weight += next.weight
		*next = submitted{}
		q.head++
	}
	if q.head >= len(q.waiting)/2 {
		n := copy(q.waiting, q.waiting[q.head:])
		clear(q.waiting[n:])
		q.waiting, q.head = q.waiting[:n], 0
	}
	return len(b.group) > 0
}

// done removes a batch from the pending changes, after its outcome was reported.
func (q *queue) done(b *batch) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.count(-len(b.group), -b.weight)
}

// count changes the number of pending changes. mu is held.
func (q *queue) count(changes, weight int) {
	q.changes += changes
	q.weight += weight
	full := q.changes > maxPendingChanges || q.weight > maxPendingWeight
	if was := q.full.Swap(full); was && !full {
		q.space.Broadcast()
	}
}

// WaitForCapacity waits while the queue is full, unless it is stalled or closed.
func (q *queue) WaitForCapacity() {
	if !q.full.Load() {
		return
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	for q.full.Load() && !q.stalled && !q.closed {
		q.space.Wait()
	}
}

// Full reports whether WaitForCapacity would wait.
func (q *queue) Full() bool {
	if !q.full.Load() {
		return false
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.full.Load() && !q.stalled && !q.closed
}

// stall sets whether pending changes make no progress. While they do not, no caller waits
// for capacity; instead a full queue accepts nothing more.
func (q *queue) stall(stalled bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.stalled = stalled
	if stalled {
		q.space.Broadcast()
	}
}

// close ends the queue: nothing is put afterwards.
func (q *queue) close() {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.closed = true
	q.space.Broadcast()
	q.notify()
}

// ended reports whether the queue is closed and empty.
func (q *queue) ended() bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.closed && q.head == len(q.waiting)
}

func (q *queue) notify() {
	select {
	case q.wake <- struct{}{}:
	default:
	}
}

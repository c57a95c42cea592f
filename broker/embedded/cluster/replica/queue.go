package replica

import (
	"sync"
	"sync/atomic"

	"signalbox/broker/embedded/engine"
)

// Bounds of one batch, and of what may be submitted and not settled before Room
// waits. A weight is in bytes, and not less than the encoding of what it is of.
const (
	groupChanges      = 1024
	groupWeight       = 384 << 10
	maxPendingChanges = 16 << 10
	maxPendingWeight  = 64 << 20
)

// queue holds what was submitted to a mode, in order. It is not bounded itself:
// Submit must not wait, so those who make changes wait in room before.
type queue struct {
	wake chan struct{} // filled when there is something to do

	mu      sync.Mutex
	space   *sync.Cond // on mu, signalled when room may end its wait
	waiting []submitted
	head    int // of waiting; those before were taken
	changes int // put and not done
	weight  int // the same in bytes
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

// put takes changes, unless the queue is full and stalled.
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

// fill waits for changes and takes as many as a batch may have. It reports false
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

// take takes what fits into a batch, at least one change if there is any, and
// reports whether there was one.
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

// done notes that a batch is settled.
func (q *queue) done(b *batch) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.count(-len(b.group), -b.weight)
}

// count keeps account of what is not settled, with mu held.
func (q *queue) count(changes, weight int) {
	q.changes += changes
	q.weight += weight
	full := q.changes > maxPendingChanges || q.weight > maxPendingWeight
	if was := q.full.Swap(full); was && !full {
		q.space.Broadcast()
	}
}

// waitForCapacity waits while the queue is full, unless it is stalled or closed.
func (q *queue) waitForCapacity() {
	if !q.full.Load() {
		return
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	for q.full.Load() && !q.stalled && !q.closed {
		q.space.Wait()
	}
}

// stall sets whether the changes that wait make no progress. While it is set, no caller waits for
// room; instead nothing more is taken by a full queue.
func (q *queue) stall(stalled bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.stalled = stalled
	if stalled {
		q.space.Broadcast()
	}
}

// close ends the queue: nothing more is put.
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

package store

import (
	"sync"
	"sync/atomic"

	"signalbox/broker/embedded/engine"
)

// Bounds of one transaction, and of what may be submitted and not committed
// before Room waits. A weight is in bytes, as far as they matter.
const (
	groupChanges = 1024
	groupWeight  = 4 << 20
	roomChanges  = 16 << 10
	roomWeight   = 64 << 20
	recordWeight = 64 // of what is not a payload
)

// inbox holds what was submitted, in order. It is not bounded itself: Submit
// must not wait, so those who make changes wait in room before.
type inbox struct {
	wake chan struct{} // filled when there is something to do

	mu      sync.Mutex
	vacant  *sync.Cond // on mu, told when full may have become false
	waiting []submitted
	head    int // of waiting; those before were taken
	changes int // submitted and not done
	weight  int // the same in bytes
	closed  bool

	full atomic.Bool // changes or weight are above their bounds
}

// submitted is changes, or an errand among them.
type submitted struct {
	changes *engine.Changes
	errand  *errand
	weight  int
}

func newInbox() *inbox {
	b := &inbox{wake: make(chan struct{}, 1)}
	b.vacant = sync.NewCond(&b.mu)
	return b
}

// put takes changes, unless the inbox is closed.
func (b *inbox) put(c *engine.Changes) bool { return b.add(submitted{changes: c, weight: weigh(c)}) }

// send takes an errand, unless the inbox is closed. It does not count: whoever
// sends one waits for it.
func (b *inbox) send(e *errand) bool { return b.add(submitted{errand: e}) }

func (b *inbox) add(s submitted) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.closed {
		return false
	}
	b.waiting = append(b.waiting, s)
	if s.changes != nil {
		b.count(1, s.weight)
	}
	b.rouse()
	return true
}

// weigh tells how much memory changes hold, roughly.
func weigh(c *engine.Changes) int {
	records := len(c.PutSessions) + len(c.Subscribed) + len(c.Unsubscribed) + len(c.Messages) + len(c.Enqueued) +
		len(c.Released) + len(c.Received) + len(c.Retained) + len(c.Dequeued) + len(c.Forgotten) + len(c.EndedSessions)
	w := (1 + records) * recordWeight
	for _, m := range c.Messages {
		w += len(m.Payload)
	}
	return w
}

// take gives what fits into one transaction with its weight, at least one
// if there is any, and none where nothing waits. Where an errand is next, it
// gives that instead.
func (b *inbox) take() (group []*engine.Changes, weight int, e *errand) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for b.head < len(b.waiting) && len(group) < groupChanges && weight < groupWeight {
		next := b.waiting[b.head]
		if next.errand != nil && len(group) > 0 {
			break
		}
		b.waiting[b.head] = submitted{}
		b.head++
		if next.errand != nil {
			e = next.errand
			break
		}
		group = append(group, next.changes)
		weight += next.weight
	}
	if b.head >= len(b.waiting)/2 {
		n := copy(b.waiting, b.waiting[b.head:])
		clear(b.waiting[n:])
		b.waiting, b.head = b.waiting[:n], 0
	}
	return group, weight, e
}

// done tells that changes that were taken are committed, or have come to nothing.
func (b *inbox) done(changes, weight int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.count(-changes, -weight)
}

// count keeps account of what is not committed, with mu held.
func (b *inbox) count(changes, weight int) {
	b.changes += changes
	b.weight += weight
	full := b.changes > roomChanges || b.weight > roomWeight
	if was := b.full.Swap(full); was && !full {
		b.vacant.Broadcast()
	}
}

// room waits while too much is submitted.
func (b *inbox) room() {
	if !b.full.Load() {
		return
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	for b.full.Load() && !b.closed {
		b.vacant.Wait()
	}
}

// close refuses what comes from now on.
func (b *inbox) close() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.closed = true
	b.vacant.Broadcast()
	b.rouse()
}

// ended tells whether the inbox is closed and empty.
func (b *inbox) ended() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.closed && b.head == len(b.waiting)
}

func (b *inbox) rouse() {
	select {
	case b.wake <- struct{}{}:
	default:
	}
}

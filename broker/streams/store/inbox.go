package store

import (
	"context"
	"sync"
)

// Bounds of one transaction, in entries and bytes, and of what may be handed
// over and not be stored before whoever hands over more has to wait, in bytes.
const (
	groupEntries = 4096
	groupWeight  = 4 << 20
	roomWeight   = 64 << 20
	entryWeight  = 256 // of an entry beside its messages
)

// entry is what was handed over at a time. It has runs and a state, or a task
// that is done alone.
type entry struct {
	journal *journal
	weight  int
	runs    []run
	state   []byte
	settle  func(error) // nil where nobody waits
	task    func(*committer)
}

// holds tells whether there is something to be stored.
func (e *entry) holds() bool { return len(e.runs) > 0 || e.state != nil }

// inbox holds what was handed over, in order.
type inbox struct {
	wake chan struct{} // filled when there is something to do
	room int           // the bound of weight

	mu      sync.Mutex
	vacant  chan struct{} // closed when weight has come below its bound
	waiting []*entry
	head    int // of waiting; those before were taken
	weight  int // handed over, or about to be, and not done, in bytes
	closed  bool
}

func newInbox() *inbox {
	return &inbox{wake: make(chan struct{}, 1), room: roomWeight, vacant: make(chan struct{})}
}

// reserve waits for room and takes it; it is given back with done.
func (b *inbox) reserve(ctx context.Context, weight int) error {
	for {
		vacant, err := b.tryReserve(weight)
		if vacant == nil {
			return err
		}
		select {
		case <-vacant:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// tryReserve gives what to wait for where there is no room.
func (b *inbox) tryReserve(weight int) (vacant <-chan struct{}, err error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.closed {
		return nil, errClosed
	}
	if b.weight >= b.room {
		return b.vacant, nil
	}
	b.weight += weight
	return nil, nil
}

// put hands over an entry for whose weight there is room. It answers false if
// the inbox is closed.
func (b *inbox) put(e *entry) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.closed {
		b.release(e.weight)
		return false
	}
	b.waiting = append(b.waiting, e)
	b.rouse()
	return true
}

// enter hands over an entry that must not wait for room: there are only as many
// of them as there are streams.
func (b *inbox) enter(e *entry) {
	b.mu.Lock()
	b.weight += e.weight
	b.mu.Unlock()
	b.put(e)
}

// take adds to a group what fits into one transaction: some entries, or one with
// a task, or none where nothing waits.
func (b *inbox) take(group []*entry) (_ []*entry, weight int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for b.head < len(b.waiting) && len(group) < groupEntries && weight < groupWeight {
		e := b.waiting[b.head]
		if e.task != nil && len(group) > 0 {
			break
		}
		group = append(group, e)
		weight += e.weight
		b.waiting[b.head] = nil
		b.head++
		if e.task != nil {
			break
		}
	}
	b.compact()
	return group, weight
}

// compact lets go of what was taken, with mu held.
func (b *inbox) compact() {
	if b.head >= len(b.waiting)/2 {
		n := copy(b.waiting, b.waiting[b.head:])
		clear(b.waiting[n:])
		b.waiting, b.head = b.waiting[:n], 0
	}
}

// done gives back the room of entries that were taken.
func (b *inbox) done(weight int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.release(weight)
}

// release is done with mu held.
func (b *inbox) release(weight int) {
	was := b.weight
	b.weight -= weight
	if was >= b.room && b.weight < b.room {
		close(b.vacant)
		b.vacant = make(chan struct{})
	}
}

// close refuses what comes from now on.
func (b *inbox) close() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.closed = true
	close(b.vacant) // whoever waits is refused
	b.vacant = make(chan struct{})
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

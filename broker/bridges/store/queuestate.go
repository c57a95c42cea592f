package store

import (
	"context"
	"sync"
	"sync/atomic"

	"signalbox/broker/bridges"
)

// queueState is the state of a queue in memory. Each queue has one, including those that are being
// deleted.
type queueState struct {
	queue           int64
	prefix          string // of the IDs of its messages
	ready           chan struct{}
	dropped         atomic.Int64 // messages, since the store was opened
	lostDeadLetters atomic.Int64 // dead letters, since the store was opened
	deleted         atomic.Bool  // the queue was deleted: it stores nothing

	fillMu sync.Mutex // held while the window is filled from the file; before mu

	mu                sync.Mutex // guards the fields below
	open              bool
	bounds            bridges.Bounds
	sums              sums   // written only by the committer, which may read it without mu
	next              uint64 // the ID of the next early entry
	reserved          uint64 // the file has reserved IDs before it: they are not used again after a crash
	late              int    // entries without an ID, and retries, that the committer has not finished
	early             sums   // messages and bytes that are early and not stored
	window            window
	pendingRemovals   []uint64            // to be removed, not yet taken by the committer
	takenRemovals     []uint64            // taken by the committer, not yet committed
	hasNotified       bool                // the committer has been notified of removals
	removedDuringFill map[uint64]struct{} // committed removals during a fill; nil at other times

	// Used only by the committer.
	blocks  blocks
	front   uint64 // nothing is left before it
	purging bool   // the queue is being purged, and no longer counted
}

// sums are the counts and sizes of what a queue stores.
type sums struct {
	messages, bytes int64
	next            uint64 // the ID after the last entry
	dead, deadBytes int64
}

// acquire marks the queue as in use. It reports false if it is already.
func (j *queueState) acquire(b bridges.Bounds) bool {
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.open {
		return false
	}
	j.open, j.bounds = true, b
	return true
}

func (j *queueState) release() {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.open = false
}

func (j *queueState) snapshot() (sums, bridges.Bounds) {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.sums, j.bounds
}

// usage returns the sums with early entries.
func (j *queueState) usage() sums {
	j.mu.Lock()
	defer j.mu.Unlock()
	t := j.sums
	t.messages += j.early.messages
	t.bytes += j.early.bytes
	return t
}

// requestRemoval removes entries from the window. It reports whether the committer must be notified.
func (j *queueState) requestRemoval(ids []uint64) (mustNotify bool) {
	j.mu.Lock()
	defer j.mu.Unlock()
	for _, id := range ids {
		j.window.remove(id)
	}
	j.pendingRemovals = append(j.pendingRemovals, ids...)
	mustNotify = !j.hasNotified
	j.hasNotified = true
	return mustNotify
}

// takeRemovals returns the entries before an ID that the committer has to remove. Others are early
// and still wait to be stored.
func (j *queueState) takeRemovals(before uint64) []uint64 {
	j.mu.Lock()
	defer j.mu.Unlock()
	pending := j.pendingRemovals
	j.pendingRemovals, j.hasNotified = nil, false
	for _, id := range pending {
		if id < before {
			j.takenRemovals = append(j.takenRemovals, id)
		} else {
			j.pendingRemovals = append(j.pendingRemovals, id)
		}
	}
	return j.takenRemovals
}

// notify notifies readers that wait for entries.
func (j *queueState) notify() {
	select {
	case j.ready <- struct{}{}:
	default:
	}
}

// queueStates are the states of all queues.
type queueStates struct {
	mu     sync.RWMutex // guards byID
	byID   map[int64]*queueState
	bytes  int64 // of all queues that are not deleted, with their dead letters; used only by the committer
	memory atomic.Int64
	stored atomic.Int64 // bytes, for others than the committer
	early  atomic.Int64 // bytes of early entries that are not stored
}

func (b *queueStates) find(queue int64) *queueState {
	b.mu.RLock()
	defer b.mu.RUnlock()
	return b.byID[queue]
}

func (b *queueStates) put(j *queueState) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.byID[j.queue] = j
}

func (b *queueStates) remove(j *queueState) {
	b.mu.Lock()
	defer b.mu.Unlock()
	delete(b.byID, j.queue)
}

// newQueueState creates the state of a queue from its sums.
func (s *Store) newQueueState(queue int64, t sums) *queueState {
	j := &queueState{queue: queue, prefix: s.prefix(queue), ready: make(chan struct{}, 1), sums: t, next: t.next, reserved: t.next}
	j.window = window{from: 1, to: 1, memory: &s.queues.memory}
	if t.messages == 0 {
		j.window.to = t.next
	} else {
		j.notify()
	}
	return j
}

// load loads the state of all queues, and returns those of deleted queues.
func (s *Store) load(ctx context.Context) (left []*queueState, err error) {
	const q = `SELECT id, gone, messages, bytes, next, dead, dead_bytes FROM queue`
	rows, err := s.reader.db.QueryContext(ctx, q)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	for rows.Next() {
		var queue int64
		var gone bool
		var t sums
		if err := rows.Scan(&queue, &gone, &t.messages, &t.bytes, &t.next, &t.dead, &t.deadBytes); err != nil {
			return nil, err
		}
		j := s.newQueueState(queue, t)
		s.queues.put(j)
		if gone {
			j.deleted.Store(true)
			j.purging = true
			left = append(left, j)
		} else {
			s.queues.bytes += t.bytes + t.deadBytes
		}
	}
	s.queues.stored.Store(s.queues.bytes)
	return left, rows.Err()
}

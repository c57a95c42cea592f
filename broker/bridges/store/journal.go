package store

import (
	"context"
	"sync"
	"sync/atomic"

	"signalbox/broker/bridges"
)

// journal is the state of a queue in memory. Each queue has one, including those that are being
// deleted.
type journal struct {
	queue   int64
	prefix  string // of the IDs of its messages
	ready   chan struct{}
	dropped atomic.Int64 // messages, since the store was opened
	lost    atomic.Int64 // dead letters, since the store was opened
	gone    atomic.Bool  // the queue was deleted: it stores nothing

	reading sync.Mutex // held while the window is filled from the file; before mu

	mu       sync.Mutex // guards the fields below
	open     bool
	bounds   bridges.Bounds
	tally    tally // written only by the committer, which may read it without mu
	window   window
	removing []uint64            // to be removed, not yet taken by the committer
	removed  []uint64            // taken by the committer, not yet committed
	touched  bool                // the committer has been notified of removals
	watch    map[uint64]struct{} // committed removals during a fill; nil at other times

	// Used only by the committer.
	blocks blocks
	front  uint64 // nothing is left before it
	buried bool   // the queue is being purged, and no longer counted
}

// tally is the sums of what is stored of a queue.
type tally struct {
	messages, bytes int64
	next            uint64 // the ID of the next entry
	dead, deadBytes int64
}

// claim marks the journal as in use. It reports false if it is already.
func (j *journal) claim(b bridges.Bounds) bool {
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.open {
		return false
	}
	j.open, j.bounds = true, b
	return true
}

func (j *journal) unclaim() {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.open = false
}

func (j *journal) look() (tally, bridges.Bounds) {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.tally, j.bounds
}

// drop removes entries from the window. It reports whether the committer must be notified.
func (j *journal) drop(ids []uint64) (tell bool) {
	j.mu.Lock()
	defer j.mu.Unlock()
	for _, id := range ids {
		j.window.remove(id)
	}
	j.removing = append(j.removing, ids...)
	tell = !j.touched
	j.touched = true
	return tell
}

// takeRemoved returns the entries that the committer has to remove.
func (j *journal) takeRemoved() []uint64 {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.removed, j.removing, j.touched = append(j.removed, j.removing...), nil, false
	return j.removed
}

// ring notifies readers that wait for entries.
func (j *journal) ring() {
	select {
	case j.ready <- struct{}{}:
	default:
	}
}

// books are all journals.
type books struct {
	mu       sync.RWMutex // guards journals
	journals map[int64]*journal
	bytes    int64 // of all queues that are not deleted, with their dead letters; used only by the committer
	memory   atomic.Int64
}

func (b *books) find(queue int64) *journal {
	b.mu.RLock()
	defer b.mu.RUnlock()
	return b.journals[queue]
}

func (b *books) put(j *journal) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.journals[j.queue] = j
}

func (b *books) drop(j *journal) {
	b.mu.Lock()
	defer b.mu.Unlock()
	delete(b.journals, j.queue)
}

// newJournal creates the state of a queue from its sums.
func (s *Store) newJournal(queue int64, t tally) *journal {
	j := &journal{queue: queue, prefix: s.prefix(queue), ready: make(chan struct{}, 1), tally: t}
	j.window = window{from: 1, to: 1, memory: &s.books.memory}
	if t.messages == 0 {
		j.window.to = t.next
	} else {
		j.ring()
	}
	return j
}

// load loads the state of all queues, and returns those of deleted queues.
func (s *Store) load(ctx context.Context) (left []*journal, err error) {
	const q = `SELECT id, gone, messages, bytes, next, dead, dead_bytes FROM queue`
	rows, err := s.reading.db.QueryContext(ctx, q)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	for rows.Next() {
		var queue int64
		var gone bool
		var t tally
		if err := rows.Scan(&queue, &gone, &t.messages, &t.bytes, &t.next, &t.dead, &t.deadBytes); err != nil {
			return nil, err
		}
		j := s.newJournal(queue, t)
		s.books.put(j)
		if gone {
			j.gone.Store(true)
			j.buried = true
			left = append(left, j)
		} else {
			s.books.bytes += t.bytes + t.deadBytes
		}
	}
	return left, rows.Err()
}

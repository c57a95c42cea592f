package store

import (
	"context"
	"database/sql"
	"errors"
	"iter"
	"math"
	"sync"
	"sync/atomic"
)

// journal is what is known by heart of what a stream keeps. There is one for each
// stream, and one for each stream that is being deleted.
type journal struct {
	stream  int64
	evicted atomic.Int64 // messages, since the store was opened
	expired atomic.Int64
	purging bool // the stream is deleted, and its messages are not counted any more; the committer's

	order  sync.Mutex // held while messages are handed over; before mu
	lastAt int64      // when the last message came that was handed over
	gone   bool       // the stream is deleted: nothing is taken any more

	mu    sync.Mutex // guards the fields below
	ttl   int64      // milliseconds, 0 for ever
	open  bool
	tally tally // changed by the committer only, which may read it without mu
}

// tally sums up the blocks of a journal that are stored.
type tally struct {
	messages, bytes int64
	next            int64 // the sequence number of the next block
	lastAt          int64 // when the last message came that was ever stored
	front           block // the oldest block; zero where there is none
}

// block is a row without its messages.
type block struct {
	id, firstAt, lastAt, count, bytes int64
}

// claim opens the journal for the one who uses it.
func (j *journal) claim() bool {
	j.mu.Lock()
	defer j.mu.Unlock()
	was := j.open
	j.open = true
	return !was
}

func (j *journal) unclaim() {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.open = false
}

// bury has the journal take nothing any more.
func (j *journal) bury() {
	j.order.Lock()
	defer j.order.Unlock()
	j.gone = true
}

func (j *journal) isGone() bool {
	j.order.Lock()
	defer j.order.Unlock()
	return j.gone
}

// setTTL tells whether it changes.
func (j *journal) setTTL(ms int64) bool {
	j.mu.Lock()
	defer j.mu.Unlock()
	was := j.ttl
	j.ttl = ms
	return was != ms
}

// look gives what is stored, and the TTL.
func (j *journal) look() (t tally, ttl int64) {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.tally, j.ttl
}

func (j *journal) note(t tally) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.tally = t
}

// books are all journals.
type books struct {
	mu       sync.RWMutex // guards journals
	journals map[int64]*journal
	bytes    int64 // of all but those that are purged; the committer's
}

func (b *books) find(stream int64) *journal {
	b.mu.RLock()
	defer b.mu.RUnlock()
	return b.journals[stream]
}

func (b *books) put(j *journal) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.journals[j.stream] = j
}

func (b *books) drop(j *journal) {
	b.mu.Lock()
	defer b.mu.Unlock()
	delete(b.journals, j.stream)
}

// all gives all journals. The loop must not wait: nobody else can enter one
// meanwhile.
func (b *books) all() iter.Seq[*journal] {
	return func(yield func(*journal) bool) {
		b.mu.RLock()
		defer b.mu.RUnlock()
		for _, j := range b.journals {
			if !yield(j) {
				return
			}
		}
	}
}

// maxTTL is the longest time in milliseconds whose double can be reckoned with.
const maxTTL = math.MaxInt64 / 8

// milliseconds gives a TTL in milliseconds.
func milliseconds(seconds int64) int64 { return min(max(seconds, 0), maxTTL/1000) * 1000 }

// load reads all journals.
func (s *Store) load(ctx context.Context) error {
	const q = `
		SELECT log.stream, log.messages, log.bytes, log.next, log.last_at, stream.id IS NULL, coalesce(stream.ttl, 0)
		FROM log LEFT JOIN stream ON stream.id = log.stream`
	rows, err := s.reading.db.QueryContext(ctx, q)
	if err != nil {
		return err
	}
	defer rows.Close()
	var all []*journal
	for rows.Next() {
		j := &journal{}
		t := &j.tally
		if err := rows.Scan(&j.stream, &t.messages, &t.bytes, &t.next, &t.lastAt, &j.gone, &j.ttl); err != nil {
			return err
		}
		j.lastAt, j.ttl = t.lastAt, milliseconds(j.ttl)
		all = append(all, j)
	}
	if err := rows.Err(); err != nil {
		return err
	}
	return s.loadFronts(ctx, all)
}

// loadFronts finds the oldest block of each journal and enters them in the books.
func (s *Store) loadFronts(ctx context.Context, all []*journal) error {
	for _, j := range all {
		front, err := s.reading.probe(ctx, blockID(j.stream, 0), blockID(j.stream, j.tally.next))
		if err != nil && !errors.Is(err, sql.ErrNoRows) {
			return err
		}
		j.tally.front = front
		if j.purging = j.gone; !j.purging {
			s.books.bytes += j.tally.bytes
		}
		s.books.put(j)
	}
	return nil
}

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

// storedLog is the state in memory of a stream's log. Each stream has one,
// including streams whose messages are still being deleted. A Log is a handle
// of it.
type storedLog struct {
	stream  int64
	evicted atomic.Int64 // messages, since the store was opened
	expired atomic.Int64
	purging bool // the stream was deleted and its bytes no longer count; for the committer only

	order   sync.Mutex // held while messages are submitted; before mu
	lastAt  int64      // time of the last submitted message
	deleted bool       // the stream was deleted: nothing is accepted

	mu     sync.Mutex // guards the fields below
	ttl    int64      // milliseconds, 0 for ever
	open   bool
	totals totals // changed by the committer only, which may read it without mu
}

// totals are the sums of the stored blocks of a log.
type totals struct {
	messages, bytes int64
	next            int64 // sequence number of the next block
	lastAt          int64 // time of the last message ever stored
	oldest          block // zero if there is no block
}

// block is a row without its messages.
type block struct {
	id, firstAt, lastAt, count, bytes int64
}

// acquire marks the log as open and reports whether it was not.
func (sl *storedLog) acquire() bool {
	sl.mu.Lock()
	defer sl.mu.Unlock()
	was := sl.open
	sl.open = true
	return !was
}

func (sl *storedLog) release() {
	sl.mu.Lock()
	defer sl.mu.Unlock()
	sl.open = false
}

// markDeleted makes the log refuse messages from now on.
func (sl *storedLog) markDeleted() {
	sl.order.Lock()
	defer sl.order.Unlock()
	sl.deleted = true
}

func (sl *storedLog) isDeleted() bool {
	sl.order.Lock()
	defer sl.order.Unlock()
	return sl.deleted
}

// setTTL reports whether the TTL changes.
func (sl *storedLog) setTTL(ms int64) bool {
	sl.mu.Lock()
	defer sl.mu.Unlock()
	was := sl.ttl
	sl.ttl = ms
	return was != ms
}

// read returns the totals and the TTL.
func (sl *storedLog) read() (t totals, ttl int64) {
	sl.mu.Lock()
	defer sl.mu.Unlock()
	return sl.totals, sl.ttl
}

func (sl *storedLog) setTotals(t totals) {
	sl.mu.Lock()
	defer sl.mu.Unlock()
	sl.totals = t
}

// storedLogs are the logs of all streams.
type storedLogs struct {
	mu       sync.RWMutex // guards byStream
	byStream map[int64]*storedLog
	bytes    int64 // of all but those that are being purged; for the committer only
}

func (b *storedLogs) find(stream int64) *storedLog {
	b.mu.RLock()
	defer b.mu.RUnlock()
	return b.byStream[stream]
}

func (b *storedLogs) put(sl *storedLog) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.byStream[sl.stream] = sl
}

func (b *storedLogs) drop(sl *storedLog) {
	b.mu.Lock()
	defer b.mu.Unlock()
	delete(b.byStream, sl.stream)
}

// all returns all logs. The loop holds mu, so it must not block.
func (b *storedLogs) all() iter.Seq[*storedLog] {
	return func(yield func(*storedLog) bool) {
		b.mu.RLock()
		defer b.mu.RUnlock()
		for _, sl := range b.byStream {
			if !yield(sl) {
				return
			}
		}
	}
}

// maxTTL is the longest TTL in milliseconds. Its double can be added to times
// without an overflow.
const maxTTL = math.MaxInt64 / 8

// milliseconds converts a TTL from seconds, within the bounds.
func milliseconds(seconds int64) int64 { return min(max(seconds, 0), maxTTL/1000) * 1000 }

// load reads all logs.
func (s *Store) load(ctx context.Context) error {
	const q = `
		SELECT log.stream, log.messages, log.bytes, log.next, log.last_at, stream.id IS NULL, coalesce(stream.ttl, 0)
		FROM log LEFT JOIN stream ON stream.id = log.stream`
	rows, err := s.reader.db.QueryContext(ctx, q)
	if err != nil {
		return err
	}
	defer rows.Close()
	var all []*storedLog
	for rows.Next() {
		sl := &storedLog{}
		t := &sl.totals
		if err := rows.Scan(&sl.stream, &t.messages, &t.bytes, &t.next, &t.lastAt, &sl.deleted, &sl.ttl); err != nil {
			return err
		}
		sl.lastAt, sl.ttl = t.lastAt, milliseconds(sl.ttl)
		all = append(all, sl)
	}
	if err := rows.Err(); err != nil {
		return err
	}
	return s.loadOldest(ctx, all)
}

// loadOldest finds the oldest block of each log and registers the log.
func (s *Store) loadOldest(ctx context.Context, all []*storedLog) error {
	for _, sl := range all {
		front, err := s.reader.firstBlock(ctx, blockID(sl.stream, 0), blockID(sl.stream, sl.totals.next))
		if err != nil && !errors.Is(err, sql.ErrNoRows) {
			return err
		}
		sl.totals.oldest = front
		if sl.purging = sl.deleted; !sl.purging {
			s.logs.bytes += sl.totals.bytes
		}
		s.logs.put(sl)
	}
	return nil
}

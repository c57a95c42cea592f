package raftlog

import (
	"context"
	"fmt"
	"sync"
)

// logBounds is the range of entries in the log, and their sizes. It changes with the log,
// while Store.writing is held.
type logBounds struct {
	mu    sync.Mutex
	first uint64   // 0 while there are no entries
	sizes []uint32 // of the data of each entry
	bytes int64    // of all
}

// bounds returns the first and the last entry, 0 while there are none.
func (e *logBounds) bounds() (first, last uint64) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if len(e.sizes) == 0 {
		return 0, 0
	}
	return e.first, e.first + uint64(len(e.sizes)) - 1
}

// extend adds an entry behind the last one.
func (e *logBounds) extend(index uint64, size int) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if len(e.sizes) == 0 {
		e.first = index
	}
	e.sizes = append(e.sizes, uint32(size))
	e.bytes += int64(size)
}

// shrink removes the entries from lo to hi, which are at one end.
func (e *logBounds) shrink(lo, hi uint64) {
	e.mu.Lock()
	defer e.mu.Unlock()
	from, to := lo-e.first, hi-e.first+1
	for _, size := range e.sizes[from:to] {
		e.bytes -= int64(size)
	}
	if from > 0 {
		e.sizes = e.sizes[:from]
		return
	}
	e.sizes = append(make([]uint32, 0, len(e.sizes)), e.sizes[to:]...)
	e.first += to
}

// clear removes all entries.
func (e *logBounds) clear() {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.first, e.sizes, e.bytes = 0, nil, 0
}

// Bounds of what is deleted in one transaction: appending waits for that long.
const (
	maxDeletion      = 2048
	maxDeletionBytes = 8 << 20 // a single entry may have more
)

// deletionSize returns how many entries from one end, towards the other, are deleted in
// one transaction.
func (e *logBounds) deletionSize(from, to uint64, front bool) (n uint64) {
	e.mu.Lock()
	defer e.mu.Unlock()
	var bytes int64
	for n < to-from+1 && n < maxDeletion {
		at := from + n
		if !front {
			at = to - n
		}
		bytes += int64(e.sizes[at-e.first])
		if n > 0 && bytes > maxDeletionBytes {
			break
		}
		n++
	}
	return n
}

// Since returns the total size of the entries behind one, in bytes.
func (e *logBounds) Since(index uint64) (bytes int64) {
	e.mu.Lock()
	defer e.mu.Unlock()
	for i, size := range e.sizes {
		if e.first+uint64(i) > index {
			bytes += int64(size)
		}
	}
	return bytes
}

// Tail returns how many of the last entries have a total size of at most so many bytes.
func (e *logBounds) Tail(bytes int64) (n uint64) {
	e.mu.Lock()
	defer e.mu.Unlock()
	for i := len(e.sizes) - 1; i >= 0; i-- {
		if bytes -= int64(e.sizes[i]); bytes < 0 {
			break
		}
		n++
	}
	return n
}

// readBounds reads which entries exist.
func (s *Store) readBounds(ctx context.Context) error {
	rows, err := s.readers.QueryContext(ctx, `SELECT idx, length(data) FROM entry ORDER BY idx`)
	if err != nil {
		return fmt.Errorf("read the cluster's log: %w", err)
	}
	defer rows.Close()
	for rows.Next() {
		var index int64
		var size int
		if err := rows.Scan(&index, &size); err != nil {
			return fmt.Errorf("read the cluster's log: %w", err)
		}
		if _, last := s.bounds(); last != 0 && uint64(index) != last+1 {
			return fmt.Errorf("read the cluster's log: it has a gap between entries %d and %d", last, index)
		}
		s.extend(uint64(index), size)
	}
	if err := rows.Err(); err != nil {
		return fmt.Errorf("read the cluster's log: %w", err)
	}
	return nil
}

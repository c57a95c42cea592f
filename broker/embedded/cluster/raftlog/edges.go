package raftlog

import (
	"context"
	"fmt"
	"sync"

	"github.com/hashicorp/raft"
)

// edges says which entries the log holds, and how large they are. It changes with
// the log, within the same lock for writing.
type edges struct {
	mu    sync.Mutex
	first uint64   // 0 while there are no entries
	sizes []uint32 // of the data of each entry
	bytes int64    // of all
}

// bounds gives the first and the last entry, 0 while there are none.
func (e *edges) bounds() (first, last uint64) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if len(e.sizes) == 0 {
		return 0, 0
	}
	return e.first, e.first + uint64(len(e.sizes)) - 1
}

// extend adds an entry behind the last one.
func (e *edges) extend(index uint64, size int) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if len(e.sizes) == 0 {
		e.first = index
	}
	e.sizes = append(e.sizes, uint32(size))
	e.bytes += int64(size)
}

// shrink takes entries away at one end, from lo to hi.
func (e *edges) shrink(lo, hi uint64) {
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

// clear takes all entries away.
func (e *edges) clear() {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.first, e.sizes, e.bytes = 0, nil, 0
}

// A portion is what is deleted in one transaction, so that those who append wait
// for no longer than that.
const (
	portion      = 2048
	portionBytes = 8 << 20 // a single entry may have more
)

// portion gives how many entries from one end, towards the other, are one portion.
func (e *edges) portion(from, to uint64, front bool) (n uint64) {
	e.mu.Lock()
	defer e.mu.Unlock()
	var bytes int64
	for n < to-from+1 && n < portion {
		at := from + n
		if !front {
			at = to - n
		}
		bytes += int64(e.sizes[at-e.first])
		if n > 0 && bytes > portionBytes {
			break
		}
		n++
	}
	return n
}

// Since tells how many bytes the entries behind one have together.
func (e *edges) Since(index uint64) (bytes int64) {
	e.mu.Lock()
	defer e.mu.Unlock()
	for i, size := range e.sizes {
		if e.first+uint64(i) > index {
			bytes += int64(size)
		}
	}
	return bytes
}

// Tail tells how many of the last entries have no more than so many bytes
// together.
func (e *edges) Tail(bytes int64) (n uint64) {
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

// findEdges reads which entries there are.
func (s *Store) findEdges(ctx context.Context) error {
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
			return fmt.Errorf("read the cluster's log: it has a hole between entries %d and %d", last, index)
		}
		s.extend(uint64(index), size)
	}
	if err := rows.Err(); err != nil {
		return fmt.Errorf("read the cluster's log: %w", err)
	}
	return nil
}

// Recent keeps the last entries of a log in memory for those who are sent them.
type Recent struct {
	*Store
	most int64 // bytes that it keeps

	mu    sync.Mutex // guards the fields below
	last  []*raft.Log
	bytes int64
}

// NewRecent keeps up to so many bytes of a log.
func NewRecent(s *Store, bytes int64) *Recent { return &Recent{Store: s, most: bytes} }

// GetLog gives an entry.
func (r *Recent) GetLog(index uint64, l *raft.Log) error {
	r.mu.Lock()
	if n := len(r.last); n > 0 && index >= r.last[0].Index && index <= r.last[n-1].Index {
		*l = *r.last[index-r.last[0].Index]
		r.mu.Unlock()
		return nil
	}
	r.mu.Unlock()
	return r.Store.GetLog(index, l)
}

// StoreLog appends an entry.
func (r *Recent) StoreLog(l *raft.Log) error { return r.StoreLogs([]*raft.Log{l}) }

// StoreLogs appends entries.
func (r *Recent) StoreLogs(logs []*raft.Log) error {
	if err := r.Store.StoreLogs(logs); err != nil {
		return err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.last = append(r.last, logs...)
	for _, l := range logs {
		r.bytes += int64(len(l.Data))
	}
	gone := 0
	for r.bytes > r.most || len(r.last)-gone > portion {
		r.bytes -= int64(len(r.last[gone].Data))
		gone++
	}
	clear(r.last[:gone])
	r.last = r.last[gone:]
	return nil
}

// DeleteRange deletes entries at one end. It forgets all, to be asked for again.
func (r *Recent) DeleteRange(from, to uint64) error {
	r.mu.Lock()
	r.last, r.bytes = nil, 0
	r.mu.Unlock()
	return r.Store.DeleteRange(from, to)
}

package raftlog

import (
	"sync"

	"github.com/hashicorp/raft"
)

// Recent keeps the last entries of a log in memory for followers that are sent them.
type Recent struct {
	*Store
	maxBytes int64

	mu    sync.Mutex // guards the fields below
	last  []*raft.Log
	bytes int64
}

// NewRecent returns a log that keeps up to so many bytes of entries in memory.
func NewRecent(s *Store, bytes int64) *Recent { return &Recent{Store: s, maxBytes: bytes} }

// GetLog reads an entry.
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
	for r.bytes > r.maxBytes || len(r.last)-gone > maxDeletion {
		r.bytes -= int64(len(r.last[gone].Data))
		gone++
	}
	clear(r.last[:gone])
	r.last = r.last[gone:]
	return nil
}

// DeleteRange deletes entries at one end, and empties the memory.
func (r *Recent) DeleteRange(from, to uint64) error {
	r.mu.Lock()
	r.last, r.bytes = nil, 0
	r.mu.Unlock()
	return r.Store.DeleteRange(from, to)
}

package topictree

import (
	"sync"
	"sync/atomic"

	"github.com/tidwall/btree"
)

// index holds the topics in order. It changes only when one comes or leaves.
type index struct {
	size atomic.Int64 // of the tree; to be read without the lock
	mu   sync.Mutex   // guards tree
	tree btree.Map[string, *entry]
}

// full tells, without waiting for anybody, whether there is no room.
func (x *index) full(limit int) bool { return x.size.Load() >= int64(limit) }

// add puts an entry in where there are fewer than limit.
func (x *index) add(e *entry, limit int) bool {
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.tree.Len() >= limit {
		return false
	}
	x.tree.Set(e.topic, e)
	x.size.Store(int64(x.tree.Len()))
	return true
}

func (x *index) remove(e *entry) {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.tree.Delete(e.topic)
	x.size.Store(int64(x.tree.Len()))
}

// snapshot gives the topics as they are now; the copy is made when needed.
func (x *index) snapshot() *btree.Map[string, *entry] {
	x.mu.Lock()
	defer x.mu.Unlock()
	return x.tree.Copy()
}

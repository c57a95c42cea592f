package topictree

import (
	"sync"
	"sync/atomic"

	"github.com/tidwall/btree"
)

// index holds the topics in order. It changes only when a topic is added or
// removed.
type index struct {
	size atomic.Int64 // of tree, to be read without the lock
	mu   sync.Mutex   // guards tree
	tree btree.Map[string, *entry]
}

// full reports, without waiting for the lock, whether the limit is reached.
func (x *index) full(limit int) bool { return x.size.Load() >= int64(limit) }

// add adds an entry unless the limit is reached, and reports whether it did.
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

// snapshot returns a copy-on-write copy of the tree.
func (x *index) snapshot() *btree.Map[string, *entry] {
	x.mu.Lock()
	defer x.mu.Unlock()
	return x.tree.Copy()
}

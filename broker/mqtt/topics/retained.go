package topics

import (
	"iter"
	"sync"

	"github.com/tidwall/btree"
)

// Retained holds one message M per topic, ordered by the bytes of the topic. It is safe for
// concurrent use. Topics are retained: clone one that is part of a larger string.
type Retained[M any] struct {
	mu   sync.RWMutex // guards tree
	tree *btree.Map[string, M]
}

// NewRetained returns an empty Retained.
func NewRetained[M any]() *Retained[M] {
	return &Retained[M]{tree: new(btree.Map[string, M])}
}

// Set sets the message of a topic and returns the previous one.
func (r *Retained[M]) Set(topic string, m M) (old M, had bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.tree.Set(topic, m)
}

// Delete removes the message of a topic and returns it.
func (r *Retained[M]) Delete(topic string) (old M, had bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.tree.Delete(topic)
}

// Get returns the message of a topic.
func (r *Retained[M]) Get(topic string) (m M, ok bool) {
	r.mu.RLock()
	defer r.mu.RUnlock()
	return r.tree.Get(topic)
}

// Len returns the number of messages.
func (r *Retained[M]) Len() int {
	r.mu.RLock()
	defer r.mu.RUnlock()
	return r.tree.Len()
}

// snapshot returns a copy of the tree in constant time; later changes copy the nodes they
// touch.
func (r *Retained[M]) snapshot() *btree.Map[string, M] {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.tree.Copy()
}

// Match returns the messages that match a filter ("" for all), ordered by topic, as of the
// beginning of the iteration. Writers do not wait for it.
func (r *Retained[M]) Match(filter string) iter.Seq2[string, M] {
	return func(yield func(string, M) bool) {
		if filter == "" {
			r.snapshot().Scan(yield)
		} else if hasWildcard(filter) {
			matchTree(r.snapshot(), filter, yield)
		} else if m, ok := r.Get(filter); ok {
			yield(filter, m)
		}
	}
}

// matchTree yields the topics that match a filter with a wildcard, seeking past those that
// cannot match.
func matchTree[M any](tree *btree.Map[string, M], filter string, yield func(string, M) bool) {
	it := tree.Iter()
	for ok := it.First(); ok; {
		to, rel := seek(filter, it.Key())
		if rel == relEnd || rel == relMatch && !yield(it.Key(), it.Value()) {
			return
		}
		ok = advance(&it, to)
	}
}

// maxSteps is the number of steps that cost less than a search from the root.
const maxSteps = 4

// advance moves to the next topic that is not less than to, by at least one.
func advance[M any](it *btree.MapIter[string, M], to string) bool {
	for range maxSteps {
		if !it.Next() {
			return false
		}
		if it.Key() >= to {
			return true
		}
	}
	return it.Seek(to)
}

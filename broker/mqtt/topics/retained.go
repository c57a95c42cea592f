package topics

import (
	"iter"
	"sync"

	"github.com/tidwall/btree"
)

// Retained holds one message M for each topic, in order of the topics' bytes. It
// is safe for concurrent use. Topics are kept: one cut from a larger text should
// be cloned first.
type Retained[M any] struct {
	mu   sync.RWMutex // guards tree
	tree *btree.Map[string, M]
}

// NewRetained makes a Retained without messages.
func NewRetained[M any]() *Retained[M] {
	return &Retained[M]{tree: new(btree.Map[string, M])}
}

// Set puts a message in the place of the one that the topic had, if any.
func (r *Retained[M]) Set(topic string, m M) (old M, had bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.tree.Set(topic, m)
}

// Delete removes the message of a topic, if it has one.
func (r *Retained[M]) Delete(topic string) (old M, had bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.tree.Delete(topic)
}

// Get gives the message of a topic.
func (r *Retained[M]) Get(topic string) (m M, ok bool) {
	r.mu.RLock()
	defer r.mu.RUnlock()
	return r.tree.Get(topic)
}

// Len gives the number of messages.
func (r *Retained[M]) Len() int {
	r.mu.RLock()
	defer r.mu.RUnlock()
	return r.tree.Len()
}

// snapshot gives the tree as it is now. It costs the same for any size; what is
// changed later is copied first.
func (r *Retained[M]) snapshot() *btree.Map[string, M] {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.tree.Copy()
}

// Match gives the messages of all topics that a filter matches, "" for all, in
// order of the topics, as they are when the walk begins. Nobody waits for the
// walk.
func (r *Retained[M]) Match(filter string) iter.Seq2[string, M] {
	return func(yield func(string, M) bool) {
		if filter == "" {
			r.snapshot().Scan(yield)
		} else if wild(filter) {
			walk(r.snapshot(), filter, yield)
		} else if m, ok := r.Get(filter); ok {
			yield(filter, m)
		}
	}
}

// walk yields what a filter with a wildcard matches. Where nothing can match it
// leaps.
func walk[M any](tree *btree.Map[string, M], filter string, yield func(string, M) bool) {
	it := tree.Iter()
	for ok := it.First(); ok; {
		to, is := leap(filter, it.Key())
		if is == over || is == matching && !yield(it.Key(), it.Value()) {
			return
		}
		ok = forward(&it, to)
	}
}

// strides is the number of steps that cost less than a search from the root.
const strides = 4

// forward goes on by one topic at least, to the first that is not below to.
func forward[M any](it *btree.MapIter[string, M], to string) bool {
	for range strides {
		if !it.Next() {
			return false
		}
		if it.Key() >= to {
			return true
		}
	}
	return it.Seek(to)
}

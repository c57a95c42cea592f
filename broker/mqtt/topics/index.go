package topics

import (
	"cmp"
	"sync"
	"sync/atomic"

	"github.com/tidwall/btree"
)

// Options are the options of a subscription (MQTT 5, 3.8.3.1).
type Options struct {
	QoS               byte   // maximum QoS
	NoLocal           bool   // not for the subscriber's own messages [MQTT-3.8.3-3]
	RetainAsPublished bool   // RETAIN is kept [MQTT-3.3.1-13]
	RetainHandling    byte   // 0, 1 or 2; stored only
	ID                uint32 // subscription identifier, 0 for none
}

// Index holds the subscriptions of subscribers S. It is safe for concurrent use; matches run
// in parallel.
//
// Filters must be valid, and are retained: clone one that is part of a larger string.
type Index[S comparable] struct {
	generation atomic.Uint64
	empty      Matches[S]   // result without subscriptions
	unlisted   func(S) bool // reports whose subscriptions are neither listed nor counted

	mu        sync.RWMutex              // guards everything below
	literal   table[string, *entry[S]]  // filters without wildcards
	wildcards trie[entry[S]]            // filters with wildcards
	shares    table[string, *share[S]]  // by whole filter
	ordered   *btree.BTreeG[*listed[S]] // listed subscriptions
	shared    int                       // number of shared ones
	sequence  uint64                    // number of the latest subscription
}

// entry holds the subscriptions to one filter, direct and shared.
type entry[S comparable] struct {
	members subscriberList[S]
	shares  []*share[S]
	cached  atomic.Pointer[Matches[S]] // the entry's part of results; nil after a change
}

// share is a shared subscription.
type share[S comparable] struct {
	filter  string // the whole one
	members subscriberList[S]
	next    atomic.Uint64
}

// NewIndex returns an empty Index.
func NewIndex[S comparable]() *Index[S] {
	return NewIndexWithout[S](func(S) bool { return false })
}

// NewIndexWithout returns an Index in which the subscriptions of some subscribers are neither
// listed nor counted. The result of unlisted for a subscriber must never change.
func NewIndexWithout[S comparable](unlisted func(S) bool) *Index[S] {
	return &Index[S]{unlisted: unlisted, ordered: btree.NewBTreeGOptions(less[S], btree.Options{NoLocks: true})}
}

// listed is a subscription, for List.
type listed[S comparable] struct {
	Entry[S]
	sequence uint64
}

// less orders subscriptions by filter and age.
func less[S comparable](a, b *listed[S]) bool {
	return cmp.Or(cmp.Compare(a.Filter, b.Filter), cmp.Compare(a.sequence, b.sequence)) < 0
}

// Generation returns a number that is incremented after each change. A result of Match called
// after Generation is valid until the number changes.
func (x *Index[S]) Generation() uint64 { return x.generation.Load() }

// Len returns the number of listed subscriptions.
func (x *Index[S]) Len() int {
	x.mu.RLock()
	defer x.mu.RUnlock()
	return x.ordered.Len()
}

// SharedLen returns the number of listed shared subscriptions.
func (x *Index[S]) SharedLen() int {
	x.mu.RLock()
	defer x.mu.RUnlock()
	return x.shared
}

// Subscribe adds a subscription, or replaces the options of an existing one, and reports which
// [MQTT-3.8.4-3].
func (x *Index[S]) Subscribe(filter string, who S, o Options) (replaced bool) {
	inner, shared := innerFilter(filter)
	isListed := !x.unlisted(who)
	x.mu.Lock()
	defer x.mu.Unlock()
	e, s := x.getOrCreate(inner), (*share[S])(nil)
	if shared {
		s = x.getOrCreateShare(filter, e)
	}
	subscribers := e.subscribers(s)
	if i := subscribers.find(who); i >= 0 {
		x.setOptions(filter, e, &subscribers.list[i], o, isListed)
		return true
	}
	x.sequence++
	subscribers.add(member[S]{who, x.sequence, o})
	if isListed {
		x.ordered.Set(&listed[S]{Entry[S]{filter, who, o}, x.sequence})
	}
	if shared && isListed {
		x.shared++
	}
	x.invalidate(e)
	return false
}

// setOptions sets the options of an existing subscription.
func (x *Index[S]) setOptions(filter string, e *entry[S], m *member[S], o Options, isListed bool) {
	if m.options == o {
		return
	}
	m.options = o
	if isListed {
		x.ordered.Set(&listed[S]{Entry[S]{filter, m.who, o}, m.sequence})
	}
	x.invalidate(e)
}

// invalidate invalidates results of Match.
func (x *Index[S]) invalidate(e *entry[S]) {
	e.cached.Store(nil)
	x.generation.Add(1)
}

// Unsubscribe removes a subscription and reports whether it existed.
func (x *Index[S]) Unsubscribe(filter string, who S) bool {
	inner, shared := innerFilter(filter)
	isListed := !x.unlisted(who)
	x.mu.Lock()
	defer x.mu.Unlock()
	e, s := x.entry(inner), x.shares.get(filter)
	if e == nil || shared && s == nil {
		return false
	}
	members := e.subscribers(s)
	i := members.find(who)
	if i < 0 {
		return false
	}
	if isListed {
		x.ordered.Delete(&listed[S]{Entry[S]{Filter: filter}, members.list[i].sequence})
	}
	members.remove(i)
	if shared {
		x.removeEmptyShare(s, e)
	}
	if shared && isListed {
		x.shared--
	}
	x.removeEmptyEntry(inner, e)
	x.invalidate(e)
	return true
}

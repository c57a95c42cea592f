package topics

import (
	"cmp"
	"sync"
	"sync/atomic"

	"github.com/tidwall/btree"
)

// Options are those of one subscription (MQTT 5, 3.8.3.1).
type Options struct {
	QoS               byte   // the highest that is delivered
	NoLocal           bool   // nothing that the subscriber published [MQTT-3.8.3-3]
	RetainAsPublished bool   // the RETAIN flag is passed on [MQTT-3.3.1-13]
	RetainHandling    byte   // 0, 1 or 2; kept, of no use here
	ID                uint32 // subscription identifier, 0 for none
}

// Index holds the subscriptions of subscribers S, shared and not. It is safe
// for concurrent use; matches do not wait for one another.
//
// Filters are taken as valid, and kept: one cut from a larger text should be
// cloned first.
type Index[S comparable] struct {
	generation atomic.Uint64
	nobody     Matches[S]   // what all topics have that nobody is subscribed to
	unlisted   func(S) bool // whose subscriptions are matched, but neither listed nor counted

	mu      sync.RWMutex             // guards all below
	literal table[string, *entry[S]] // filters without a wildcard
	wild    trie[entry[S]]           // those with one
	shares  table[string, *share[S]] // by the whole filter
	ordered *btree.BTreeG[listed[S]] // every subscription that is listed
	shared  int                      // number of those that are shared
	since   uint64                   // of the latest subscription
}

// entry is all that is subscribed to one filter, what stands before it in
// shared subscriptions left off.
type entry[S comparable] struct {
	members roster[S]
	shares  []*share[S]
	ready   atomic.Pointer[Matches[S]] // made when first asked for
}

// share is a shared subscription.
type share[S comparable] struct {
	filter  string // the whole one
	members roster[S]
	turn    atomic.Uint64
}

// NewIndex makes an Index without subscriptions.
func NewIndex[S comparable]() *Index[S] {
	return NewIndexWithout[S](func(S) bool { return false })
}

// NewIndexWithout makes an Index that matches all subscriptions, but in which
// those of some subscribers are neither listed nor counted. What unlisted says
// of somebody must never change.
func NewIndexWithout[S comparable](unlisted func(S) bool) *Index[S] {
	return &Index[S]{unlisted: unlisted, ordered: btree.NewBTreeGOptions(before[S], btree.Options{NoLocks: true})}
}

// listed is a subscription as List finds it.
type listed[S comparable] struct {
	Entry[S]
	since uint64
}

// before orders subscriptions by filter, those to the same one by age.
func before[S comparable](a, b listed[S]) bool {
	return cmp.Or(cmp.Compare(a.Filter, b.Filter), cmp.Compare(a.since, b.since)) < 0
}

// Generation changes after each change of the subscriptions: a result of Match
// that was asked for after a call of Generation holds until it tells another
// number.
func (x *Index[S]) Generation() uint64 { return x.generation.Load() }

// Len gives the number of subscriptions that are listed.
func (x *Index[S]) Len() int {
	x.mu.RLock()
	defer x.mu.RUnlock()
	return x.ordered.Len()
}

// SharedLen gives the number of those that are shared ones.
func (x *Index[S]) SharedLen() int {
	x.mu.RLock()
	defer x.mu.RUnlock()
	return x.shared
}

// Subscribe adds a subscription, or sets the options of the one that who has to
// the same filter and tells so [MQTT-3.8.4-3].
func (x *Index[S]) Subscribe(filter string, who S, o Options) (replaced bool) {
	inner, shared := unshared(filter)
	isListed := !x.unlisted(who)
	x.mu.Lock()
	defer x.mu.Unlock()
	e, s := x.made(inner), (*share[S])(nil)
	if shared {
		s = x.madeShare(filter, e)
	}
	members := e.roster(s)
	if i := members.find(who); i >= 0 {
		x.change(filter, e, &members.list[i], o, isListed)
		return true
	}
	x.since++
	members.add(member[S]{who, x.since, o})
	if isListed {
		x.ordered.Set(listed[S]{Entry[S]{filter, who, o}, x.since})
	}
	if shared && isListed {
		x.shared++
	}
	x.changed(e)
	return false
}

// change sets the options of a subscription that is there.
func (x *Index[S]) change(filter string, e *entry[S], m *member[S], o Options, isListed bool) {
	if m.options == o {
		return
	}
	m.options = o
	if isListed {
		x.ordered.Set(listed[S]{Entry[S]{filter, m.who, o}, m.since})
	}
	x.changed(e)
}

// changed makes results of Match void, those kept in the entry and outside.
func (x *Index[S]) changed(e *entry[S]) {
	e.ready.Store(nil)
	x.generation.Add(1)
}

// Unsubscribe removes a subscription and tells whether it was there.
func (x *Index[S]) Unsubscribe(filter string, who S) bool {
	inner, shared := unshared(filter)
	isListed := !x.unlisted(who)
	x.mu.Lock()
	defer x.mu.Unlock()
	e, s := x.entry(inner), x.shares.get(filter)
	if e == nil || shared && s == nil {
		return false
	}
	members := e.roster(s)
	i := members.find(who)
	if i < 0 {
		return false
	}
	if isListed {
		x.ordered.Delete(listed[S]{Entry[S]{Filter: filter}, members.list[i].since})
	}
	members.remove(i)
	if shared {
		x.tidyShare(s, e)
	}
	if shared && isListed {
		x.shared--
	}
	x.tidy(inner, e)
	x.changed(e)
	return true
}

// Package topictree tracks the topics in use: those that messages were recently
// published to, each with its last message, and the subscribed filters. A
// Tracker observes every message; a Follower passes it the messages of a broker
// that can only be subscribed to.
//
// Of this module it imports only broker, broker/control and broker/dynsec. It
// must not import an MQTT library, the engine, a database or HTTP.
package topictree

import (
	"cmp"
	"hash/maphash"
	"iter"
	"sync"
	"sync/atomic"
	"time"

	"signalbox/broker/control"
)

// Defaults of Options.
const (
	defaultTTL = 60 * time.Second
	// DefaultLimit bounds either list, in topics or filters.
	DefaultLimit = 50_000
	// defaultPayload bounds the stored part of a payload, in bytes.
	defaultPayload = 1000
	// defaultIdleBudget is how many messages per TTL are observed while the
	// tree is not watched.
	defaultIdleBudget = 10_000
)

// MaxTopic is the length in bytes of the longest topic that is tracked.
const MaxTopic = 1024

// watchTTLs is how many TTLs a request keeps a tracker watched.
const watchTTLs = 10

// Options configure a Tracker. Zero values stand for the defaults.
type Options struct {
	Now        func() time.Time
	TTL        time.Duration  // after which a topic without messages expires
	Limits     control.Limits // in topics, filters, and bytes of a payload
	IdleBudget int64          // in messages
	// Subscriptions returns each subscribed filter once, sorted, with the
	// number of clients. Nil means a tree without them.
	Subscriptions func() iter.Seq2[string, int]
}

// What a Tracker observes.
const (
	stateOff     int32 = iota // nothing
	stateLimited              // the idle budget
	stateFull                 // every message
)

// shards is the number of parts. It keeps contention between publishers low.
const shards = 64

// Tracker tracks the topics in use. All methods are safe for concurrent use.
//
// What it returns is exact: the last message of a topic, and the number of
// messages since it is tracked. The tree is watched from a request on for ten
// TTLs. Meanwhile every message is observed. Otherwise only a limited number
// per TTL is, the idle budget, so that the tree of a broker with little traffic
// is available at the first request. On a broker with more traffic the tracker
// removes all topics rather than return outdated messages, and a message costs
// no more than an atomic load.
//
// Locks are taken in the order mu, shard.mu, index.mu or recording.mu.
type Tracker struct {
	now           func() time.Time
	subscriptions func() iter.Seq2[string, int]
	idleBudget    int64 // the allowance
	seed          maphash.Seed
	shards        [shards]shard
	index         index
	settings      atomic.Pointer[settings] // replaced with mu held
	recordings    atomic.Int64             // in all shards; see Values

	mu          sync.Mutex // guards the fields below
	lastRequest time.Time  // zero for never
	budgetStart time.Time  // when the budget was last refilled

	_      [64]byte     // keeps state, which publishers read all the time, on a cache line of its own
	state  atomic.Int32 // from stateLimited to stateOff by publishers, otherwise with mu held
	_      [60]byte
	budget atomic.Int64
	_      [56]byte
}

var _ control.TopicTracker = (*Tracker)(nil)

// settings are immutable once they are in use.
type settings struct {
	ttl     time.Duration
	limits  control.Limits
	filters []string // in the order in which they were added
}

// New returns a Tracker without topics.
func New(o Options) *Tracker {
	if o.Now == nil {
		o.Now = time.Now
	}
	t := &Tracker{
		now: o.Now, subscriptions: o.Subscriptions, idleBudget: cmp.Or(o.IdleBudget, defaultIdleBudget),
		seed: maphash.MakeSeed(),
	}
	for i := range t.shards {
		t.shards[i].init()
	}
	t.settings.Store(&settings{ttl: cmp.Or(o.TTL, defaultTTL), limits: control.Limits{
		Publish:   cmp.Or(o.Limits.Publish, DefaultLimit),
		Subscribe: cmp.Or(o.Limits.Subscribe, DefaultLimit),
		Payload:   cmp.Or(o.Limits.Payload, defaultPayload),
	}})
	t.Tidy()
	return t
}

// Observe records a message. It retains neither topic nor payload, and does not
// wait for requests.
func (t *Tracker) Observe(topic string, payload []byte, qos byte, retain bool) {
	if t.state.Load() != stateOff {
		t.observe(topic, payload, qos, retain)
	}
}

// observe records a message unless the budget is exhausted.
func (t *Tracker) observe(topic string, payload []byte, qos byte, retain bool) {
	if !t.admits() {
		return
	}
	now := t.now()
	if r := t.store(topic, payload, qos, retain, now); r != nil {
		r.observe(payload, now.Unix())
	}
}

// store makes a message the last one of its topic, and returns the recording of the topic, nil
// if there is none.
func (t *Tracker) store(topic string, payload []byte, qos byte, retain bool, now time.Time) *recording {
	s := t.shardOf(topic)
	s.mu.Lock()
	defer s.mu.Unlock()
	set := t.settings.Load() // with the lock held; see restrict
	e := s.topics[topic]
	if e == nil {
		if e = t.track(s, set, topic, now); e == nil {
			return nil
		}
	}
	if now.Sub(e.at) >= set.ttl {
		e.messages, e.rate = 0, meter{} // it had expired
	}
	e.update(payload, set.limits.Payload, qos, retain, now)
	s.moveToEnd(e)
	return e.recording
}

func (t *Tracker) shardOf(topic string) *shard {
	return &t.shards[maphash.String(t.seed, topic)%shards]
}

// admits reports whether one more message may be observed. The message that
// exceeds the budget sets the state to stateOff.
func (t *Tracker) admits() bool {
	if t.state.Load() != stateLimited || t.budget.Add(-1) >= 0 {
		return true
	}
	return !t.state.CompareAndSwap(stateLimited, stateOff) && t.state.Load() == stateFull
}

// track returns a new entry for a topic, nil if it is not to be tracked or
// exceeds a limit. The caller holds the lock of the shard.
func (t *Tracker) track(s *shard, set *settings, topic string, now time.Time) *entry {
	if !set.tracks(topic) {
		return nil
	}
	t.removeOldest(s, olderThan(set.ttl, now), 2) // two for one, so that expired topics leave faster than others are added
	if len(topic) <= MaxTopic && !t.index.full(set.limits.Publish) {
		e := newEntry(s, topic, now)
		if t.index.add(e, set.limits.Publish) {
			s.topics[e.topic] = e
			return e
		}
	}
	s.notTracked++
	return nil
}

// Tidy removes expired topics, ends recordings and updates the state. It must be
// called every few seconds.
func (t *Tracker) Tidy() {
	now := t.now()
	t.mu.Lock()
	t.updateState(now)
	t.mu.Unlock()
	t.sweep(now)
	t.endRecordings(now)
}

// markRequested records a request, and removes expired topics.
func (t *Tracker) markRequested() {
	now := t.now()
	t.mu.Lock()
	t.lastRequest = now
	t.updateState(now)
	t.mu.Unlock()
	t.sweep(now)
}

// Watched reports whether there was a request within the last ten TTLs.
func (t *Tracker) Watched() bool {
	now := t.now()
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.isWatched(now)
}

// isWatched is Watched with mu held.
func (t *Tracker) isWatched(now time.Time) bool {
	ttl := t.settings.Load().ttl
	return ttl > 0 && !t.lastRequest.IsZero() && now.Sub(t.lastRequest)/watchTTLs <= ttl
}

// updateState sets the state. The tree is emptied before and after stateOff,
// because messages are missed meanwhile. The caller holds mu.
func (t *Tracker) updateState(now time.Time) {
	ttl, is := t.settings.Load().ttl, t.state.Load()
	next := is
	switch {
	case ttl <= 0:
		next = stateOff
	case t.isWatched(now):
		next = stateFull
	case is == stateFull, t.budgetStart.IsZero(), now.Sub(t.budgetStart) >= ttl:
		t.budgetStart = now
		t.budget.Store(t.idleBudget)
		next = stateLimited
	}
	if is == stateOff || next == stateOff {
		t.removeAll()
	}
	if next != is {
		t.state.Store(next)
	}
}

// Package topictree knows the topics in use: those that messages were published
// to lately, each with its last message, and the filters that are subscribed to.
// A Tracker is told of every message; a Follower tells one of the messages of a
// broker that can only be subscribed to.
//
// Of this module it imports broker, broker/control and broker/dynsec only. It
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
	DefaultTTL = 60 * time.Second
	// DefaultLimit bounds either list, in topics or filters.
	DefaultLimit = 50_000
	// DefaultPayload bounds what is kept of a payload, in bytes.
	DefaultPayload = 1000
	// DefaultAllowance is how many messages are taken note of in the time of a
	// TTL while nobody asks.
	DefaultAllowance = 10_000
)

// MaxTopic is the length in bytes of the longest topic that is tracked.
const MaxTopic = 1024

// interest is for how many TTLs a question keeps a tracker watching.
const interest = 10

// Options are what a Tracker starts with. Zero stands for the default.
type Options struct {
	Now       func() time.Time
	TTL       time.Duration  // after which a topic without a message leaves
	Limits    control.Limits // in topics, filters, and bytes of a payload
	Allowance int64          // in messages
	// Subscriptions gives each filter that is subscribed to once, in order, with
	// the number of clients. Nil is for a tree without them.
	Subscriptions func() iter.Seq2[string, int]
}

// What a Tracker takes note of.
const (
	dark    int32 = iota // nothing
	frugal               // as many messages as are allowed while nobody asks
	watched              // everything
)

// shards is the number of parts by which publishers keep out of each other's
// way.
const shards = 64

// Tracker knows the topics in use. All methods are safe for concurrent use.
//
// What it shows is exact: a topic's last message, and the number of those since
// it is being tracked. While somebody asks, and for ten TTLs after that, it
// takes note of every message. While nobody does, it does so for a limited
// number of messages in the time of a TTL, so that on a broker with little
// traffic the tree is there at the first question. On one with more it forgets
// everything rather than showing what is not true any more, and a message costs
// no more than a look at a flag.
//
// Locks are taken in the order mu, shard.mu, index.mu.
type Tracker struct {
	now           func() time.Time
	subscriptions func() iter.Seq2[string, int]
	perTTL        int64 // the allowance
	seed          maphash.Seed
	shards        [shards]shard
	index         index
	settings      atomic.Pointer[settings] // replaced with mu held

	mu     sync.Mutex // guards what follows
	asked  time.Time  // for the last time; zero for never
	period time.Time  // when the allowance was granted

	_         [64]byte     // publishers read state all the time, and only that while it is dark
	state     atomic.Int32 // from frugal to dark by publishers, else with mu held
	_         [60]byte
	allowance atomic.Int64
	_         [56]byte
}

var _ control.TopicTracker = (*Tracker)(nil)

// settings never change once they are in use.
type settings struct {
	ttl     time.Duration
	limits  control.Limits
	filters []string // in the order in which they were added
}

// New makes a Tracker without topics.
func New(o Options) *Tracker {
	if o.Now == nil {
		o.Now = time.Now
	}
	t := &Tracker{
		now: o.Now, subscriptions: o.Subscriptions, perTTL: cmp.Or(o.Allowance, DefaultAllowance),
		seed: maphash.MakeSeed(),
	}
	for i := range t.shards {
		t.shards[i].open()
	}
	t.settings.Store(&settings{ttl: cmp.Or(o.TTL, DefaultTTL), limits: control.Limits{
		Publish:   cmp.Or(o.Limits.Publish, DefaultLimit),
		Subscribe: cmp.Or(o.Limits.Subscribe, DefaultLimit),
		Payload:   cmp.Or(o.Limits.Payload, DefaultPayload),
	}})
	t.Tidy()
	return t
}

// Observe takes note of a message. It keeps neither topic nor payload, and does
// not wait for those who ask.
func (t *Tracker) Observe(topic string, payload []byte, qos byte, retain bool) {
	if t.state.Load() != dark {
		t.observe(topic, payload, qos, retain)
	}
}

// observe is what Observe does while it is not dark.
func (t *Tracker) observe(topic string, payload []byte, qos byte, retain bool) {
	if !t.granted() {
		return
	}
	now := t.now()
	s := &t.shards[maphash.String(t.seed, topic)%shards]
	s.mu.Lock()
	defer s.mu.Unlock()
	set := t.settings.Load() // with the lock held; see restrict
	e := s.topics[topic]
	if e == nil {
		if e = t.take(s, set, topic, now); e == nil {
			return
		}
	}
	if now.Sub(e.at) >= set.ttl {
		e.messages = 0 // it had left
	}
	e.note(payload, set.limits.Payload, qos, retain, now)
	s.moveToEnd(e)
}

// granted tells whether one more message may be taken note of. The one that
// finds nothing left of the allowance turns the light off.
func (t *Tracker) granted() bool {
	if t.state.Load() != frugal || t.allowance.Add(-1) >= 0 {
		return true
	}
	return !t.state.CompareAndSwap(frugal, dark) && t.state.Load() == watched
}

// take makes an entry for a topic, nil if it is not to be tracked or there is no
// room. The shard's lock is held.
func (t *Tracker) take(s *shard, set *settings, topic string, now time.Time) *entry {
	if !set.wants(topic) {
		return nil
	}
	t.drop(s, olderThan(set.ttl, now), 2) // what is over makes room faster than it is filled
	if len(topic) <= MaxTopic && !t.index.full(set.limits.Publish) {
		e := newEntry(s, topic, now)
		if t.index.add(e, set.limits.Publish) {
			s.topics[e.topic] = e
			return e
		}
	}
	s.missed++
	return nil
}

// Tidy lets go of topics whose time is over, and decides what is to be taken
// note of from now on. It is to be called every few seconds.
func (t *Tracker) Tidy() {
	now := t.now()
	t.mu.Lock()
	t.settle(now)
	t.mu.Unlock()
	t.sweep(now)
}

// ask notes that somebody asks, and lets go of topics whose time is over.
func (t *Tracker) ask() {
	now := t.now()
	t.mu.Lock()
	t.asked = now
	t.settle(now)
	t.mu.Unlock()
	t.sweep(now)
}

// Watched tells whether somebody has asked within the last ten TTLs.
func (t *Tracker) Watched() bool {
	now := t.now()
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.wanted(now)
}

// wanted is Watched with the lock held.
func (t *Tracker) wanted(now time.Time) bool {
	ttl := t.settings.Load().ttl
	return ttl > 0 && !t.asked.IsZero() && now.Sub(t.asked)/interest <= ttl
}

// settle sets the state. After dark, the tree begins anew: nobody knows what
// has happened meanwhile. mu is held.
func (t *Tracker) settle(now time.Time) {
	ttl, is := t.settings.Load().ttl, t.state.Load()
	next := is
	switch {
	case ttl <= 0:
		next = dark
	case t.wanted(now):
		next = watched
	case is == watched, t.period.IsZero(), now.Sub(t.period) >= ttl:
		t.period = now
		t.allowance.Store(t.perTTL)
		next = frugal
	}
	if is == dark || next == dark {
		t.forget()
	}
	if next != is {
		t.state.Store(next)
	}
}

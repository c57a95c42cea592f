package topictree

import (
	"strings"
	"sync"
	"time"
)

// shard is a part of the topics.
type shard struct {
	mu     sync.Mutex // guards what follows, and the entries
	topics map[string]*entry
	ends   entry // of a ring: next is the topic without a message for longest
	missed int64 // messages whose topics there was no room for
	_      [64]byte
}

// entry is a topic with its last message. Shard and topic never change.
type entry struct {
	shard      *shard
	topic      string
	prev, next *entry
	payload    []byte // its beginning; the memory is used again for the next one
	cut        bool   // there was more of it
	qos        byte
	retain     bool
	at         time.Time
	messages   int64
}

func (s *shard) open() {
	s.topics = map[string]*entry{}
	s.ends.prev, s.ends.next = &s.ends, &s.ends
}

// newEntry makes an entry at the end of the shard's ring.
func newEntry(s *shard, topic string, now time.Time) *entry {
	e := &entry{shard: s, topic: strings.Clone(topic), at: now}
	e.prev, e.next = e, e
	return e
}

// unlink takes the entry out of its ring.
func (e *entry) unlink() {
	e.prev.next, e.next.prev = e.next, e.prev
	e.prev, e.next = e, e
}

// moveToEnd makes the entry the one with the latest message.
func (s *shard) moveToEnd(e *entry) {
	if s.ends.prev == e {
		return
	}
	e.unlink()
	e.prev, e.next = s.ends.prev, &s.ends
	e.prev.next, s.ends.prev = e, e
}

// note puts a message in the place of the one before.
func (e *entry) note(payload []byte, limit int, qos byte, retain bool, now time.Time) {
	e.cut = len(payload) > limit
	e.payload = append(e.payload[:0], payload[:min(limit, len(payload))]...)
	e.qos, e.retain, e.at = qos, retain, now
	e.messages++
}

// remove lets go of a topic. The shard's lock is held.
func (t *Tracker) remove(e *entry) {
	delete(e.shard.topics, e.topic)
	e.unlink()
	t.index.remove(e)
}

// olderThan tells of a topic whether its time is over.
func olderThan(ttl time.Duration, now time.Time) func(*entry) bool {
	return func(e *entry) bool { return now.Sub(e.at) >= ttl }
}

// drop lets go of topics, those without a message for longest first, as long as
// they are over, and of no more than most. It tells whether these were all. The
// shard's lock is held.
func (t *Tracker) drop(s *shard, over func(*entry) bool, most int) (all bool) {
	for ; most > 0; most-- {
		e := s.ends.next
		if e == &s.ends || !over(e) {
			return true
		}
		t.remove(e)
	}
	return false
}

// sweep lets go of all topics whose time is over. It looks at no others.
func (t *Tracker) sweep(now time.Time) { t.clear(olderThan(t.settings.Load().ttl, now)) }

// forget lets go of all topics.
func (t *Tracker) forget() { t.clear(func(*entry) bool { return true }) }

// batch is how many topics are let go of without giving publishers a turn.
const batch = 128

func (t *Tracker) clear(over func(*entry) bool) {
	for i := range t.shards {
		s := &t.shards[i]
		for all := false; !all; {
			s.mu.Lock()
			all = t.drop(s, over, batch)
			s.mu.Unlock()
		}
	}
}

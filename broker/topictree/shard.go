package topictree

import (
	"strings"
	"sync"
	"time"
)

// shard is a part of the topics.
type shard struct {
	mu         sync.Mutex // guards the fields below and the entries
	topics     map[string]*entry
	ring       entry // sentinel of a circular list; next is the topic with the oldest message
	notTracked int64 // messages of topics beyond a limit
	recordings map[string]*recording
	_          [64]byte
}

// entry is a topic with its last message. Shard and topic never change.
type entry struct {
	shard      *shard
	topic      string
	prev, next *entry
	payload    []byte // possibly truncated; its memory is reused
	truncated  bool   // the payload was longer
	qos        byte
	retain     bool
	at         time.Time
	messages   int64
	rate       meter
	recording  *recording // nil unless the topic is recorded
}

func (s *shard) init() {
	s.topics, s.recordings = map[string]*entry{}, map[string]*recording{}
	s.ring.prev, s.ring.next = &s.ring, &s.ring
}

// newEntry returns an entry that is in no list.
func newEntry(s *shard, topic string, now time.Time) *entry {
	e := &entry{shard: s, topic: strings.Clone(topic), at: now, recording: s.recordings[topic]}
	e.prev, e.next = e, e
	return e
}

// unlink removes the entry from its list.
func (e *entry) unlink() {
	e.prev.next, e.next.prev = e.next, e.prev
	e.prev, e.next = e, e
}

// moveToEnd makes the entry the one with the latest message.
func (s *shard) moveToEnd(e *entry) {
	if s.ring.prev == e {
		return
	}
	e.unlink()
	e.prev, e.next = s.ring.prev, &s.ring
	e.prev.next, s.ring.prev = e, e
}

// update replaces the last message.
func (e *entry) update(payload []byte, limit int, qos byte, retain bool, now time.Time) {
	e.truncated = len(payload) > limit
	e.payload = append(e.payload[:0], payload[:min(limit, len(payload))]...)
	e.rate.add(e.at, now)
	e.qos, e.retain, e.at = qos, retain, now
	e.messages++
}

// remove removes a topic. The caller holds the lock of the shard.
func (t *Tracker) remove(e *entry) {
	delete(e.shard.topics, e.topic)
	e.unlink()
	t.index.remove(e)
}

// olderThan returns a function that reports whether a topic has expired.
func olderThan(ttl time.Duration, now time.Time) func(*entry) bool {
	return func(e *entry) bool { return now.Sub(e.at) >= ttl }
}

// removeOldest removes at most most topics that have expired, those with the
// oldest messages first, and reports whether none is left. The caller holds the
// lock of the shard.
func (t *Tracker) removeOldest(s *shard, expired func(*entry) bool, most int) (all bool) {
	for ; most > 0; most-- {
		e := s.ring.next
		if e == &s.ring || !expired(e) {
			return true
		}
		t.remove(e)
	}
	return false
}

// sweep removes all expired topics. It visits no others.
func (t *Tracker) sweep(now time.Time) { t.removeWhile(olderThan(t.settings.Load().ttl, now)) }

// removeAll removes all topics and recordings.
func (t *Tracker) removeAll() {
	t.removeWhile(func(*entry) bool { return true })
	t.removeRecordings(func(*recording) bool { return true })
}

// batch is how many topics are removed before the lock is released for
// publishers.
const batch = 128

func (t *Tracker) removeWhile(expired func(*entry) bool) {
	for i := range t.shards {
		s := &t.shards[i]
		for all := false; !all; {
			s.mu.Lock()
			all = t.removeOldest(s, expired, batch)
			s.mu.Unlock()
		}
	}
}

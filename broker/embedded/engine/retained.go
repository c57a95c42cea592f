package engine

import (
	"strings"
	"sync"
	"sync/atomic"

	"signalbox/broker/embedded/engine/topics"
)

// retained are the retained messages. What is retained and what is handed to
// the store for a topic follow the same order, because both happen under mu.
type retained struct {
	index    *topics.Retained[*Message]
	bytes    atomic.Int64 // of topics, payloads and properties
	expiring atomic.Bool  // some of them expire
	mu       sync.Mutex   // held while handing over to the store, which never waits then
}

func newRetained() *retained { return &retained{index: topics.NewRetained[*Message]()} }

// set keeps a message or, where its payload is empty, clears the topic's
// [MQTT-3.3.1-6]. It gives the message that was there.
func (r *retained) set(m *Message) (previous *Message) {
	if len(m.Payload) == 0 {
		return r.remove(m.Topic)
	}
	if m.ExpiresAt != 0 {
		r.expiring.Store(true)
	}
	r.bytes.Add(int64(m.size()))
	previous, had := r.index.Set(m.Topic, m)
	if had {
		r.bytes.Add(-int64(previous.size()))
	}
	return previous
}

// remove clears a topic's message and gives it.
func (r *retained) remove(topic string) *Message {
	m, had := r.index.Delete(topic)
	if had {
		r.bytes.Add(-int64(m.size()))
	}
	return m
}

// revert takes a message back that could not be stored, unless another came
// since.
func (r *retained) revert(record RetainedRecord, previous *Message) {
	r.mu.Lock()
	defer r.mu.Unlock()
	current, _ := r.index.Get(record.Topic)
	if current != record.Message {
		return
	}
	if previous == nil {
		r.remove(record.Topic)
		return
	}
	r.set(previous)
}

// lasting tells whether a retained message outlives the process: what the
// broker tells about itself does not.
func lasting(topic string) bool { return !strings.HasPrefix(topic, sysPrefix) }

// sysPrefix begins the topics in which the broker tells about itself.
const sysPrefix = "$SYS/"

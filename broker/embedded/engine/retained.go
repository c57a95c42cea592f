package engine

import (
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"signalbox/broker/mqtt/topics"
)

// retained are the retained messages. What is retained and what is handed to
// the store for a topic follow the same order, because both happen under mu.
type retained struct {
	index    *topics.Retained[*Message]
	quotas   *quotas
	bytes    atomic.Int64 // of topics, payloads and properties
	expiring atomic.Bool  // some of them expire

	now func() int64 // epoch milliseconds

	mu       sync.Mutex // held while handing over to the store, which never waits then; guards what follows
	pending  map[string]*pendingRetained
	agreed   bool        // changes are decided by a log that all nodes share
	awaited  int         // in all pending changes
	applied  *dedupCache // what the log has brought
	watching bool        // timer is running
	timer    *time.Timer // nil until there is something to watch
	closed   bool
}

// pendingRetained is the outcome of a topic while changes to it are being stored: should
// they come to nothing, the topic has again what is stored.
type pendingRetained struct {
	stored  *Message  // nil for none
	under   int       // changes under way
	awaited []awaited // changes that a log is to bring, in order
}

func newRetained(now func() int64) *retained {
	return &retained{index: topics.NewRetained[*Message](), now: now, pending: map[string]*pendingRetained{}, applied: newDedupCache()}
}

// set keeps a message or, where its payload is empty, clears the topic's
// [MQTT-3.3.1-6]. It returns the message that was there.
func (r *retained) set(m *Message) (previous *Message) {
	if len(m.Payload) == 0 {
		return r.remove(m.Topic)
	}
	if m.ExpiresAt != 0 {
		r.expiring.Store(true)
	}
	r.bytes.Add(int64(m.size()))
	r.quotas.retain(m)
	previous, had := r.index.Set(m.Topic, m)
	if had {
		r.bytes.Add(-int64(previous.size()))
		r.quotas.unretain(previous)
	}
	return previous
}

// remove clears a topic's message and returns it.
func (r *retained) remove(topic string) *Message {
	m, had := r.index.Delete(topic)
	if had {
		r.bytes.Add(-int64(m.size()))
		r.quotas.unretain(m)
	}
	return m
}

// pendingFor returns a topic's pending change, or begins it. mu is held.
func (r *retained) pendingFor(topic string) *pendingRetained {
	f := r.pending[topic]
	if f == nil {
		f = &pendingRetained{}
		f.stored, _ = r.index.Get(topic)
		r.pending[topic] = f
	}
	return f
}

// beginStore notes that a topic is about to be changed, and the change handed to the
// store. mu is held.
func (r *retained) beginStore(topic string) *pendingRetained {
	f := r.pendingFor(topic)
	f.under++
	return f
}

// committed notes the outcome of a change. What was begun before everything was
// forgotten counts no more.
func (r *retained) committed(f *pendingRetained, record RetainedRecord, stored bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.pending[record.Topic] != f {
		return
	}
	if stored {
		f.stored = record.Message
	}
	f.under--
	r.finishPending(record.Topic, f)
}

// finishPending has a topic what is stored, after the last change that is under way. mu is
// held.
func (r *retained) finishPending(topic string, f *pendingRetained) {
	if f.under > 0 || len(f.awaited) > 0 {
		return
	}
	delete(r.pending, topic)
	switch current, _ := r.index.Get(topic); {
	case current == f.stored:
	case f.stored == nil:
		r.remove(topic)
	default:
		r.set(f.stored)
	}
}

// forget drops all messages that outlive the process, and the outcome of those
// that are being stored. mu is held.
func (r *retained) forget() {
	r.pending, r.awaited = map[string]*pendingRetained{}, 0
	for topic := range r.index.Match("") {
		if lasting(topic) {
			r.remove(topic)
		}
	}
}

// lasting reports whether a retained message outlives the process: what the
// broker tells about itself does not.
func lasting(topic string) bool { return !strings.HasPrefix(topic, sysPrefix) }

// sysPrefix begins the topics in which the broker tells about itself.
const sysPrefix = "$SYS/"

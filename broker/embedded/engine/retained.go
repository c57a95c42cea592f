package engine

import (
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"signalbox/broker/mqtt/topics"
)

// retained is the retained messages. The changes of a topic are made here and submitted to
// the store in the same order, because both happen under mu.
type retained struct {
	index    *topics.Retained[*Message]
	quotas   *quotas
	bytes    atomic.Int64 // of topics, payloads and properties
	expiring atomic.Bool  // some of them expire

	now func() int64 // epoch milliseconds

	mu       sync.Mutex // guards what follows; held while calling Submit, which never waits
	pending  map[string]*pendingRetained
	agreed   bool        // changes are decided by a log that all nodes share
	awaited  int         // awaited changes of all topics
	applied  *dedupCache // messages that the log has delivered
	watching bool        // timer is running
	timer    *time.Timer // nil until it is first needed
	closed   bool
}

// pendingRetained is a topic with changes that are not committed: if they fail, the stored
// message is shown again.
type pendingRetained struct {
	stored  *Message  // nil for none
	under   int       // submitted changes
	awaited []awaited // changes that the log is to deliver, in order
}

func newRetained(now func() int64) *retained {
	return &retained{index: topics.NewRetained[*Message](), now: now, pending: map[string]*pendingRetained{}, applied: newDedupCache()}
}

// set sets the retained message of a topic or, with an empty payload, clears it
// [MQTT-3.3.1-6]. It returns the previous message.
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

// remove clears the retained message of a topic and returns it.
func (r *retained) remove(topic string) *Message {
	m, had := r.index.Delete(topic)
	if had {
		r.bytes.Add(-int64(m.size()))
		r.quotas.unretain(m)
	}
	return m
}

// pendingFor returns the pending changes of a topic, which may be new. mu is held.
func (r *retained) pendingFor(topic string) *pendingRetained {
	f := r.pending[topic]
	if f == nil {
		f = &pendingRetained{}
		f.stored, _ = r.index.Get(topic)
		r.pending[topic] = f
	}
	return f
}

// beginStore records that a change of a topic is about to be made and submitted. mu is held.
func (r *retained) beginStore(topic string) *pendingRetained {
	f := r.pendingFor(topic)
	f.under++
	return f
}

// committed handles the outcome of a change. Changes from before forget are ignored.
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

// finishPending shows the stored message of a topic, after its last pending change. mu is
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

// forget removes all messages that outlive the process, and all pending changes. mu is held.
func (r *retained) forget() {
	r.pending, r.awaited = map[string]*pendingRetained{}, 0
	for topic := range r.index.Match("") {
		if isDurable(topic) {
			r.remove(topic)
		}
	}
}

// isDurable reports whether a retained message outlives the process: the status of the broker
// itself does not.
func isDurable(topic string) bool { return !strings.HasPrefix(topic, sysPrefix) }

// sysPrefix is the prefix of the topics with the status of the broker.
const sysPrefix = "$SYS/"

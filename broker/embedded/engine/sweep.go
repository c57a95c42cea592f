package engine

import "time"

// sweepEvery is how often expired messages are removed. Expired messages are never delivered;
// the sweep only releases their memory and storage.
const sweepEvery = time.Minute

// sweep removes expired messages [MQTT-3.3.2-5].
func (e *Engine) sweep() {
	now := e.now()
	if e.retained.expiring.Load() {
		e.sweepRetained(now)
	}
	for _, s := range e.all() {
		s.sweep(now)
	}
}

func (e *Engine) sweepRetained(now int64) {
	e.retained.expiring.Store(false)
	left := false
	_, kept := e.retained.index.Page("", 0, -1)
	for _, k := range kept {
		left = left || k.Message.ExpiresAt > now || k.Message.expired(now) && !e.clearRetained(k.Topic, k.Message)
	}
	if left {
		e.retained.expiring.Store(true)
	}
}

// clearRetained clears a topic's retained message, if it is still m. It returns false if that
// must wait for a pending change. With AgreeRetained each node clears expired messages itself.
func (e *Engine) clearRetained(topic string, m *Message) bool {
	r := e.retained
	r.mu.Lock()
	defer r.mu.Unlock()
	current, _ := r.index.Get(topic)
	if current != m {
		return true
	}
	if r.agreed && r.pending[topic] != nil {
		return false
	}
	r.remove(topic)
	if f := r.pending[topic]; f != nil {
		f.stored = nil
	}
	e.generation.Load().submit(&Changes{Owed: true, Retained: []RetainedRecord{{Topic: topic}}})
	return true
}

// sweep drops expired messages from the queue of a client that is away, and releases the
// buffer of an empty queue.
func (s *Session) sweep(now int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.out.kept.trim(keepRing)
	if s.conn != nil || !s.out.expiring {
		return
	}
	s.out.expiring = false
	var over []uint64
	for e := range s.out.all() {
		switch {
		case e.state&released != 0, e.qos == 2 && e.state&sent != 0: // [MQTT-4.3.3-7]
		case e.expired(now) && e.state&committed != 0:
			over = append(over, e.seq)
		default:
			s.out.expiring = s.out.expiring || e.expires != 0
		}
	}
	s.drop(DropExpired, len(over))
	var gone []QueueRecord
	for _, seq := range over {
		gone = append(gone, s.abandon(s.out.get(seq)))
	}
	s.forget(gone)
}

package mqtt

import "sync"

// generation is how many messages are remembered at least.
const generation = 1 << 15

// visitor is a message at a topic of this broker.
type visitor struct {
	id    ident
	topic token
}

// memory remembers which messages came to a broker over bridges: between once and
// twice as many as generation says, the oldest are forgotten. It is safe for
// concurrent use.
type memory struct {
	mu          sync.Mutex // guards what follows
	young, aged map[visitor]struct{}
}

// add tells whether a message is new, and remembers it.
func (m *memory) add(v visitor) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	_, young := m.young[v]
	_, aged := m.aged[v]
	if young || aged {
		return false
	}
	if m.young == nil || len(m.young) >= generation {
		m.young, m.aged = map[visitor]struct{}{}, m.young
	}
	m.young[v] = struct{}{}
	return true
}

// remove forgets a message.
func (m *memory) remove(v visitor) {
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.young, v)
	delete(m.aged, v)
}

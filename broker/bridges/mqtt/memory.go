package mqtt

import "sync"

// generation is the minimum number of messages that are remembered.
const generation = 1 << 15

// visitor identifies a message at a topic of this broker.
type visitor struct {
	id    ident
	topic token
}

// memory remembers the messages that arrived at a broker over bridges: between one and two
// generations, of which the older is forgotten as a whole. It is safe for concurrent use.
type memory struct {
	mu          sync.Mutex // guards the fields below
	young, aged map[visitor]struct{}
}

// add remembers a message. It reports false if the message is known.
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

package mqtt

import "sync"

// minRemembered is the minimum number of messages that are remembered.
const minRemembered = 1 << 15

// dedupKey identifies a message at a topic of this broker.
type dedupKey struct {
	id    traceID
	topic token
}

// dedupCache remembers the messages that arrived at a broker over bridges: between one and two
// generations, of which the older is forgotten as a whole. It is safe for concurrent use.
type dedupCache struct {
	mu                    sync.Mutex // guards the fields below
	inCurrent, inPrevious map[dedupKey]struct{}
}

// add remembers a message. It reports false if the message is known.
func (m *dedupCache) add(v dedupKey) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	_, inCurrent := m.inCurrent[v]
	_, inPrevious := m.inPrevious[v]
	if inCurrent || inPrevious {
		return false
	}
	if m.inCurrent == nil || len(m.inCurrent) >= minRemembered {
		m.inCurrent, m.inPrevious = map[dedupKey]struct{}{}, m.inCurrent
	}
	m.inCurrent[v] = struct{}{}
	return true
}

// remove forgets a message.
func (m *dedupCache) remove(v dedupKey) {
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.inCurrent, v)
	delete(m.inPrevious, v)
}

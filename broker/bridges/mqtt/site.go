package mqtt

import (
	"crypto/rand"
	"crypto/sha256"
	"encoding/binary"
	"slices"
	"sync"

	"signalbox/broker/messaging"
)

// site is what all connections of a broker know of each other. It decides which
// way messages go; DESIGN.md tells by what rules. As a messaging.Border it looks
// after what bridges of other brokers bring and take.
type site struct {
	identity string
	self     token
	nonce    [16]byte // distinguishes identifiers of messages from those of other runs
	memory   memory

	mu     sync.RWMutex // guards the fields below; held for moments; no other lock is taken under it except a client's
	links  []*connector // running, or closed and about to be replaced
	coming []*connector // created and not yet running
}

func newSite(identity string) *site {
	s := &site{identity: identity, self: tokenOf(identity)}
	rand.Read(s.nonce[:]) //nolint:errcheck // it never fails
	return s
}

// announce registers a connector that will run or be closed.
func (s *site) announce(c *connector) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.coming = append(s.coming, c)
}

// add registers a running connector, which replaces the closed one of the same name.
func (s *site) add(c *connector) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.coming = slices.DeleteFunc(s.coming, func(other *connector) bool { return other == c })
	for _, other := range s.links {
		if other.left.Load() && other.name == c.name {
			c.inherit(other)
		}
	}
	s.clear(c.name)
	s.links = append(s.links, c)
}

// remove unregisters a closed connector. While a connector of the same name is about to replace
// it, it still counts as a sender and receiver.
func (s *site) remove(c *connector) {
	s.mu.Lock()
	defer s.mu.Unlock()
	c.left.Store(true)
	s.coming = slices.DeleteFunc(s.coming, func(other *connector) bool { return other == c })
	if !slices.ContainsFunc(s.coming, func(other *connector) bool { return other.name == c.name }) {
		s.clear(c.name)
	}
}

// clear removes closed connectors with a name. The caller holds mu.
func (s *site) clear(name string) {
	s.links = slices.DeleteFunc(s.links, func(other *connector) bool { return other.left.Load() && other.name == name })
}

// expect adds to a trace all targets to which connections send a local topic.
func (s *site) expect(t *trace, topic string) {
	s.mu.RLock()
	defer s.mu.RUnlock()
	for _, c := range s.links {
		c.expect(t, topic)
	}
}

// fetches reports whether this broker itself receives a message from its origin, at the same
// topic.
func (s *site) fetches(t *trace, topic string, qos byte) bool {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return slices.ContainsFunc(s.links, func(c *connector) bool {
		return c.peer() == t.visited[0] && c.sure(qos) && c.fetches(t.topic, topic)
	})
}

// sign returns the properties of a message that leaves this broker. Before them its trace must be
// split off. It reports false if the message has visited too many brokers.
func (s *site) sign(t *trace, rest []byte, m *messaging.Message) (properties []byte, ok bool) {
	if t == nil {
		t = &trace{id: s.identify(m), topic: tokenOf(m.Topic)}
	}
	if !t.visit(s.self) {
		return nil, false
	}
	s.expect(t, m.Topic)
	return t.join(rest), true
}

// identify returns the identifier of a message that was published here.
func (s *site) identify(m *messaging.Message) (id ident) {
	if m.Serial == 0 {
		rand.Read(id[:]) //nolint:errcheck // it never fails
		return id
	}
	sum := sha256.Sum256(binary.BigEndian.AppendUint64(s.nonce[:len(s.nonce):len(s.nonce)], m.Serial))
	copy(id[:], sum[:])
	return id
}

// Identity returns the broker's name among bridges.
func (s *site) Identity() string { return s.identity }

// Admit reports whether a message that a client publishes is to be delivered.
func (s *site) Admit(m *messaging.Message) bool {
	t, _ := splitTrace(m.Properties)
	switch {
	case t == nil:
		return true
	case t.hasVisited(s.self), s.fetches(t, m.Topic, m.QoS):
		return false
	}
	return s.memory.add(visitor{t.id, tokenOf(m.Topic)})
}

// Withdraw forgets a message that was admitted but not stored.
func (s *site) Withdraw(m *messaging.Message) {
	if t, _ := splitTrace(m.Properties); t != nil {
		s.memory.remove(visitor{t.id, tokenOf(m.Topic)})
	}
}

// Depart returns the properties of a message that a bridge of another broker receives.
func (s *site) Depart(m *messaging.Message) []byte {
	t, rest := splitTrace(m.Properties)
	if properties, ok := s.sign(t, rest, m); ok {
		return properties
	}
	return m.Properties
}

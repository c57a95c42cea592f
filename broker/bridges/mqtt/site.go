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
	nonce    [16]byte // makes identifiers of messages differ from those of other runs
	memory   memory

	mu    sync.RWMutex // guards what follows; held for moments only, no other lock is taken under it but one of a feed's
	links []*connector // that run
}

func newSite(identity string) *site {
	s := &site{identity: identity, self: tokenOf(identity)}
	rand.Read(s.nonce[:]) //nolint:errcheck // it never fails
	return s
}

func (s *site) add(c *connector) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.links = append(s.links, c)
}

func (s *site) remove(c *connector) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.links = slices.DeleteFunc(s.links, func(other *connector) bool { return other == c })
}

// expect notes in a trace all brokers to which connections lead that take a topic
// of this one.
func (s *site) expect(t *trace, topic string) {
	s.mu.RLock()
	defer s.mu.RUnlock()
	for _, c := range s.links {
		if c.sends(topic) {
			t.expect(c.peer())
		}
	}
}

// fetches tells whether this broker takes a message, which was published at
// another one, from there itself, to the same topic.
func (s *site) fetches(t *trace, topic string) bool {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return slices.ContainsFunc(s.links, func(c *connector) bool {
		return c.met.Load() && c.peer() == t.visited[0] && c.fetches(t.topic, topic)
	})
}

// sign gives the properties with which a message leaves this broker, and its
// trace before. It answers false where the message has been at too many brokers.
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

// identify gives the identifier of a message that was published here.
func (s *site) identify(m *messaging.Message) (id ident) {
	if m.Serial == 0 {
		rand.Read(id[:]) //nolint:errcheck // it never fails
		return id
	}
	sum := sha256.Sum256(binary.BigEndian.AppendUint64(s.nonce[:len(s.nonce):len(s.nonce)], m.Serial))
	copy(id[:], sum[:])
	return id
}

// Identity is what the broker is called among bridges.
func (s *site) Identity() string { return s.identity }

// Admit tells whether a message that a client publishes is to be delivered.
func (s *site) Admit(m *messaging.Message) bool {
	t, _ := splitTrace(m.Properties)
	switch {
	case t == nil:
		return true
	case t.hasVisited(s.self), s.fetches(t, m.Topic):
		return false
	}
	return s.memory.add(visitor{t.id, tokenOf(m.Topic)})
}

// Withdraw forgets a message that came to nothing.
func (s *site) Withdraw(m *messaging.Message) {
	if t, _ := splitTrace(m.Properties); t != nil {
		s.memory.remove(visitor{t.id, tokenOf(m.Topic)})
	}
}

// Depart gives the properties with which a bridge of another broker takes a
// message.
func (s *site) Depart(m *messaging.Message) []byte {
	t, rest := splitTrace(m.Properties)
	if properties, ok := s.sign(t, rest, m); ok {
		return properties
	}
	return m.Properties
}

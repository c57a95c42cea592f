package mqtt

import (
	"crypto/rand"
	"crypto/sha256"
	"encoding/binary"
	"slices"
	"sync"
)

// loopGuard is the state that all connections of a broker share. It implements the rules of
// DESIGN.md that prevent loops; as a messaging.LoopGuard also for messages of other brokers'
// bridges.
type loopGuard struct {
	identity string
	self     token
	nonce    [16]byte // distinguishes identifiers of messages from those of other runs
	seen     dedupCache

	mu       sync.RWMutex // guards the fields below; held for moments; no other lock is taken under it except a client's
	running  []*connector // running, or closed and about to be replaced
	starting []*connector // created and not yet running
}

func newLoopGuard(identity string) *loopGuard {
	g := &loopGuard{identity: identity, self: tokenOf(identity)}
	rand.Read(g.nonce[:]) //nolint:errcheck // it never fails
	return g
}

// register registers a connector that will run or be closed.
func (g *loopGuard) register(c *connector) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.starting = append(g.starting, c)
}

// add registers a running connector, which replaces the closed one of the same name.
func (g *loopGuard) add(c *connector) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.starting = slices.DeleteFunc(g.starting, func(other *connector) bool { return other == c })
	for _, other := range g.running {
		if other.closed.Load() && other.name == c.name {
			c.continueFrom(other)
		}
	}
	g.removeClosed(c.name)
	g.running = append(g.running, c)
}

// remove unregisters a closed connector. While a connector of the same name is about to replace
// it, it still counts as a sender and receiver.
func (g *loopGuard) remove(c *connector) {
	g.mu.Lock()
	defer g.mu.Unlock()
	c.closed.Store(true)
	g.starting = slices.DeleteFunc(g.starting, func(other *connector) bool { return other == c })
	if !slices.ContainsFunc(g.starting, func(other *connector) bool { return other.name == c.name }) {
		g.removeClosed(c.name)
	}
}

// removeClosed removes closed connectors with a name. The caller holds mu.
func (g *loopGuard) removeClosed(name string) {
	g.running = slices.DeleteFunc(g.running, func(other *connector) bool { return other.closed.Load() && other.name == name })
}

// addPending adds to a trace all targets to which connections send a local topic.
func (g *loopGuard) addPending(t *trace, topic string) {
	g.mu.RLock()
	defer g.mu.RUnlock()
	for _, c := range g.running {
		c.addPending(t, topic)
	}
}

// receivesDirectly reports whether this broker itself receives a message from its origin, at the
// same topic.
func (g *loopGuard) receivesDirectly(t *trace, topic string, qos byte) bool {
	g.mu.RLock()
	defer g.mu.RUnlock()
	return slices.ContainsFunc(g.running, func(c *connector) bool {
		return c.peer() == t.visited[0] && c.isKeptWhileDisconnected(qos) && c.receives(t.topic, topic)
	})
}

// outgoingProperties returns the properties of a message that leaves this broker. Before them its
// trace must be split off. It reports false if the message has visited too many brokers.
func (g *loopGuard) outgoingProperties(t *trace, rest []byte, topic string, serial uint64) (properties []byte, ok bool) {
	if t == nil {
		t = &trace{id: g.messageID(serial), topic: tokenOf(topic)}
	}
	if !t.addVisited(g.self) {
		return nil, false
	}
	g.addPending(t, topic)
	return t.join(rest), true
}

// messageID returns the identifier of a message that was published here. A serial of 0
// is none.
func (g *loopGuard) messageID(serial uint64) (id traceID) {
	if serial == 0 {
		rand.Read(id[:]) //nolint:errcheck // it never fails
		return id
	}
	sum := sha256.Sum256(binary.BigEndian.AppendUint64(g.nonce[:len(g.nonce):len(g.nonce)], serial))
	copy(id[:], sum[:])
	return id
}

// Identity returns the broker's name among bridges.
func (g *loopGuard) Identity() string { return g.identity }

// Admit reports whether a message that a client publishes is to be delivered.
func (g *loopGuard) Admit(topic string, properties []byte, qos byte) bool {
	t, _ := splitTrace(properties)
	switch {
	case t == nil:
		return true
	case t.hasVisited(g.self), g.receivesDirectly(t, topic, qos):
		return false
	}
	return g.seen.add(dedupKey{t.id, tokenOf(topic)})
}

// Withdraw forgets a message that was admitted but not stored.
func (g *loopGuard) Withdraw(topic string, properties []byte) {
	if t, _ := splitTrace(properties); t != nil {
		g.seen.remove(dedupKey{t.id, tokenOf(topic)})
	}
}

// Depart returns the properties of a message that a bridge of another broker receives.
func (g *loopGuard) Depart(topic string, properties []byte, serial uint64) []byte {
	t, rest := splitTrace(properties)
	if outgoing, ok := g.outgoingProperties(t, rest, topic, serial); ok {
		return outgoing
	}
	return properties
}

// Package mqtt is the kind of bridge that sends messages to other MQTT brokers, and receives
// messages from them, with package client. It prevents loops in any topology of brokers.
//
// The package must not import net/http, a database or an MQTT library.
package mqtt

import (
	_ "embed"
	"sync"

	"signalbox/broker/bridges"
	"signalbox/broker/messaging"
)

// Kind is the bridge to MQTT brokers.
type Kind struct {
	mu     sync.Mutex            // guards sites
	guards map[string]*loopGuard // by identity of the broker
}

// New returns the kind.
func New() *Kind { return &Kind{guards: map[string]*loopGuard{}} }

var (
	//go:embed connection.json
	connectionSchema []byte
	//go:embed mapping.json
	mappingSchema []byte
)

// ID returns "mqtt-bridge".
func (*Kind) ID() string { return "mqtt-bridge" }

// Schema returns the configuration schema that is specific to the kind.
func (*Kind) Schema() bridges.Schema {
	return bridges.Schema{
		Title:       "MQTT bridge",
		Description: "Sends messages to other MQTT brokers, and receives messages from them.",
		Connection:  connectionSchema, Mapping: mappingSchema,
	}
}

// Open has what other brokers' bridges bring to a broker looked after, where that
// can be done.
func (k *Kind) Open(local messaging.Broker, identity string) (end func()) {
	if g, ok := local.(messaging.GuardedBroker); ok {
		return g.Guard(k.guard(identity))
	}
	return func() {}
}

// guard returns the state that the connections of a broker share.
func (k *Kind) guard(identity string) *loopGuard {
	k.mu.Lock()
	defer k.mu.Unlock()
	s := k.guards[identity]
	if s == nil {
		s = newLoopGuard(identity)
		k.guards[identity] = s
	}
	return s
}

// Compile creates a connector.
func (k *Kind) Compile(c *bridges.Connection) (bridges.Connector, bridges.Problems) {
	d, problems := parseDocument(c)
	if len(problems) > 0 {
		return nil, problems
	}
	return newConnector(k.guard(c.Identity), c, d), nil
}

var _ bridges.BrokerKind = (*Kind)(nil)

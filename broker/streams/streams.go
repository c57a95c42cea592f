// Package streams is the stream engine of one broker: it takes the messages of
// topics, transforms them by a query, publishes them to other topics, stores
// them and replays them. It implements broker.Streams on a messaging.Broker,
// which may be embedded or remote.
//
// Of this module it imports only broker, broker/messaging and
// broker/streams/query; it must not import an MQTT library, a database or
// net/http. DESIGN.md describes how a message is processed and what is durable
// when.
package streams

import (
	"errors"
	"log/slog"

	"signalbox/broker/messaging"
)

// Config is the configuration under "streams.".
type Config struct {
	Durability     string `mapstructure:"durability"`
	MaxBytes       int64  `mapstructure:"max_bytes"`
	MaxStreamBytes int64  `mapstructure:"max_stream_bytes"`
	QueueMessages  int    `mapstructure:"max_queued_messages"`
	QueueBytes     int64  `mapstructure:"max_queued_bytes"`
}

// DefaultConfig returns the configuration of an empty file.
func DefaultConfig() Config {
	return Config{Durability: "full", MaxBytes: 10 << 30, QueueMessages: 10_000, QueueBytes: 16 << 20}
}

// Validate returns an error with every key whose value is not valid.
func (c Config) Validate() error {
	var errs []error
	if c.Durability != "full" && c.Durability != "process" {
		errs = append(errs, errors.New("streams.durability: must be full or process"))
	}
	if c.MaxBytes < 0 {
		errs = append(errs, errors.New("streams.max_bytes: must not be negative; 0 is no bound"))
	}
	if c.MaxStreamBytes < 0 {
		errs = append(errs, errors.New("streams.max_stream_bytes: must not be negative; 0 is no bound"))
	}
	if c.QueueMessages < 1 {
		errs = append(errs, errors.New("streams.max_queued_messages: must be at least 1"))
	}
	if c.QueueBytes < 1 {
		errs = append(errs, errors.New("streams.max_queued_bytes: must be at least 1"))
	}
	return errors.Join(errs...)
}

// Host manages the stream engines of all brokers. All methods are safe for
// concurrent use.
type Host struct {
	*messaging.Host[*Engine]

	// Registry has the definitions of streams, if several services share them. It must be set before
	// the first Open. The default has none.
	Registry messaging.Registry

	config Config
	store  Store
	log    *slog.Logger
	clock  clock
}

// NewHost returns a Host on a store.
func NewHost(c Config, s Store, log *slog.Logger) *Host {
	return &Host{Host: messaging.NewHost[*Engine](s), Registry: messaging.LocalRegistry{}, config: c, store: s, log: log, clock: realClock{}}
}

// Open returns the stream engine of a broker at once. The engine reads the
// definitions in the background, after an older engine of the same broker was
// closed.
func (h *Host) Open(brokerID string, m messaging.Broker) *Engine {
	log := h.log.With("broker", brokerID)
	e := &Engine{Lifecycle: messaging.NewLifecycle(brokerID, "stream", log), host: h, brokerID: brokerID, messaging: m, log: log, streams: map[string]*stream{}}
	if _, inProcess := m.(messaging.StoringBroker); !inProcess {
		e.serving, _ = m.(messaging.ServingBroker)
	}
	h.Start(e, e.Lifecycle, e.load, e.stopAll)
	e.Follow(h.Registry, opFollow, e.follow)
	return e
}

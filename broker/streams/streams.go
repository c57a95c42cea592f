// Package streams is the stream engine of one broker: it takes the messages of
// topics, transforms them by a query, publishes them to other topics, keeps them
// and replays them. It implements broker.Streams on a messaging.Broker, in this
// process or far away.
//
// Of this module it imports broker, broker/messaging and broker/streams/query
// only; it must not import an MQTT library, a database or net/http. DESIGN.md tells how a message
// travels and what is safe when.
package streams

import (
	"context"
	"errors"
	"iter"
	"log/slog"
	"maps"
	"slices"
	"sync"

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

// DefaultConfig gives the configuration of an empty file.
func DefaultConfig() Config {
	return Config{Durability: "full", MaxBytes: 10 << 30, QueueMessages: 10_000, QueueBytes: 16 << 20}
}

// Validate names every key whose value cannot be used.
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

// Host is what the streams of all brokers share. All methods are safe for
// concurrent use.
type Host struct {
	config Config
	store  Store
	log    *slog.Logger
	clock  clock

	mu    sync.Mutex               // guards the fields below
	turns map[string]chan struct{} // by broker: holds one while an Engine works on its streams
	live  map[string]*Engine       // the latest of each broker, until it is closed
}

// NewHost makes a Host on a store.
func NewHost(c Config, s Store, log *slog.Logger) *Host {
	return &Host{config: c, store: s, log: log, clock: realClock{}, turns: map[string]chan struct{}{}, live: map[string]*Engine{}}
}

// Open gives the stream engine of a broker, at once. It reads the definitions in
// the background, after an older engine of the same broker was closed.
func (h *Host) Open(brokerID string, m messaging.Broker) *Engine {
	e := newEngine(h, brokerID, m)
	e.tasks.Go(e.begin)
	h.mu.Lock()
	defer h.mu.Unlock()
	h.live[brokerID] = e
	return e
}

// Forget deletes the streams of a broker with their messages, once its engine is
// closed.
func (h *Host) Forget(ctx context.Context, brokerID string) error {
	turn := h.turn(brokerID)
	select {
	case turn <- struct{}{}:
	case <-ctx.Done():
		return ctx.Err()
	}
	defer func() { <-turn }()
	return h.store.Forget(ctx, brokerID)
}

// Healthy says why streams cannot keep messages at present, nil if they can.
func (h *Host) Healthy(context.Context) error { return h.store.Err() }

// Engines gives the engines that are open, by broker id in order.
func (h *Host) Engines() iter.Seq2[string, *Engine] {
	h.mu.Lock()
	live := maps.Clone(h.live)
	h.mu.Unlock()
	return func(yield func(string, *Engine) bool) {
		for _, id := range slices.Sorted(maps.Keys(live)) {
			if !yield(id, live[id]) {
				return
			}
		}
	}
}

func (h *Host) turn(brokerID string) chan struct{} {
	h.mu.Lock()
	defer h.mu.Unlock()
	t := h.turns[brokerID]
	if t == nil {
		t = make(chan struct{}, 1)
		h.turns[brokerID] = t
	}
	return t
}

func (h *Host) closed(e *Engine) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.live[e.brokerID] == e {
		delete(h.live, e.brokerID)
	}
}

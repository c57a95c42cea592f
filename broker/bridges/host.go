package bridges

import (
	"context"
	"errors"
	"iter"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"signalbox/broker/messaging"
)

// Config is the configuration under "bridges.".
type Config struct {
	Durability string `mapstructure:"durability"`
	MaxBytes   int64  `mapstructure:"max_bytes"`
}

// DefaultConfig gives the configuration of an empty file.
func DefaultConfig() Config { return Config{Durability: "full", MaxBytes: 10 << 30} }

// Validate names every key whose value cannot be used.
func (c Config) Validate() error {
	var errs []error
	if c.Durability != "full" && c.Durability != "process" {
		errs = append(errs, errors.New("bridges.durability: must be full or process"))
	}
	if c.MaxBytes < 0 {
		errs = append(errs, errors.New("bridges.max_bytes: must not be negative; 0 is no bound"))
	}
	return errors.Join(errs...)
}

// Host is what the bridges of all brokers share. All methods are safe for
// concurrent use.
type Host struct {
	// Dial, if set, is that of Connection. It must be set before the first Open.
	Dial Dial
	// Now is the clock of messages' times, by which they expire; it must not be one
	// that can be set. NewHost sets it to time.Now. It must be set before the first Open.
	Now func() time.Time

	store Store
	kinds []*kind // in order of their ids
	log   *slog.Logger

	mu    sync.Mutex               // guards the fields below
	turns map[string]chan struct{} // by broker: holds one while an Engine works on its bridges
	live  map[string]*Engine       // the latest of each broker, until it is closed
}

// NewHost makes a Host on a store. No two kinds have the same id.
func NewHost(s Store, kinds []Kind, log *slog.Logger) *Host {
	h := &Host{Now: time.Now, store: s, log: log, turns: map[string]chan struct{}{}, live: map[string]*Engine{}}
	for _, k := range kinds {
		h.kinds = append(h.kinds, newKind(k))
	}
	slices.SortFunc(h.kinds, func(a, b *kind) int { return strings.Compare(a.ID(), b.ID()) })
	return h
}

// Identity is random, made once, and kept: what this service is called among
// bridges.
func (h *Host) Identity() string { return h.store.Identity() }

// Kinds gives the ids of the bridges that there can be, in order.
func (h *Host) Kinds() []string {
	ids := make([]string, 0, len(h.kinds))
	for _, k := range h.kinds {
		ids = append(ids, k.ID())
	}
	return ids
}

// Open gives the bridges of a broker, at once. identity is that of Connection. The
// configurations are read in the background, after an older engine of the same
// broker was closed.
func (h *Host) Open(brokerID, identity string, local messaging.Broker) *Engine {
	e := newEngine(h, brokerID, identity, local)
	e.tasks.Go(e.begin)
	h.mu.Lock()
	defer h.mu.Unlock()
	h.live[brokerID] = e
	return e
}

// Forget deletes the bridges of a broker with what waits in them, once its engine
// is closed.
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

// Leave has the bridges of all brokers deliver no more: what is under way has its
// time from now on. Messages are taken until an engine is closed. It does not wait;
// a service that ends calls it first, so that the brokers, which are closed one after
// the other, wait for no target one after the other.
func (h *Host) Leave() {
	for _, e := range h.Engines() {
		e.leave()
	}
}

// Healthy says why bridges cannot keep messages at present, nil if they can.
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

package bridges

import (
	"errors"
	"log/slog"
	"slices"
	"strings"
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
	*messaging.Host[*Engine]

	// Dial, if set, is that of Connection. It must be set before the first Open.
	Dial Dial
	// Now is the clock of messages' times, by which they expire; it must not be one
	// that can be set. NewHost sets it to time.Now. It must be set before the first Open.
	Now func() time.Time

	store Store
	kinds []*kind // in order of their ids
	log   *slog.Logger
}

// NewHost makes a Host on a store. No two kinds have the same id.
func NewHost(s Store, kinds []Kind, log *slog.Logger) *Host {
	h := &Host{Host: messaging.NewHost[*Engine](s), Now: time.Now, store: s, log: log}
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
	h.Start(e, e.Lifecycle, e.load, e.stopAll)
	return e
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

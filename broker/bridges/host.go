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

// DefaultConfig returns the configuration of an empty file.
func DefaultConfig() Config { return Config{Durability: "full", MaxBytes: 10 << 30} }

// Validate returns an error for every invalid key.
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

// Host has what the bridges of all brokers share. All methods are safe for concurrent use.
type Host struct {
	*messaging.Host[*Engine]

	// Registry has the configurations, if several services share them. It must be set before the
	// first Open. The default has none.
	Registry messaging.Registry
	// Dial, if set, is the Dial of every Connection. It must be set before the first Open.
	Dial Dial
	// Now is the clock of messages' times and their expiry; it must not be a clock that can be
	// set. The default is time.Now. It must be set before the first Open.
	Now func() time.Time

	store Store
	kinds []*kind // sorted by id
	log   *slog.Logger
}

// NewHost returns a Host with a store. The ids of the kinds must be unique.
func NewHost(s Store, kinds []Kind, log *slog.Logger) *Host {
	h := &Host{Host: messaging.NewHost[*Engine](s), Registry: messaging.LocalRegistry{}, Now: time.Now, store: s, log: log}
	for _, k := range kinds {
		h.kinds = append(h.kinds, newKind(k))
	}
	slices.SortFunc(h.kinds, func(a, b *kind) int { return strings.Compare(a.ID(), b.ID()) })
	return h
}

// Identity returns the random name of this service among bridges, which is created once and kept.
func (h *Host) Identity() string { return h.store.Identity() }

// Kinds returns the ids of the kinds, sorted.
func (h *Host) Kinds() []string {
	ids := make([]string, 0, len(h.kinds))
	for _, k := range h.kinds {
		ids = append(ids, k.ID())
	}
	return ids
}

// Open returns the engine of a broker, at once. Identity is that of Connection. The
// configurations are read in the background, after an older engine of the same broker was closed.
func (h *Host) Open(brokerID, identity string, local messaging.Broker) *Engine {
	e := newEngine(h, brokerID, identity, local)
	h.Start(e, e.Lifecycle, e.load, e.stopAll)
	e.Follow(h.Registry, opFollow, e.follow)
	return e
}

// Leave has the bridges of all brokers finish their deliveries, with a timeout from now on.
// Messages are taken until an engine is closed. It does not wait; a service that ends calls it
// first, so that brokers, which are closed one after the other, do not wait for their targets one
// after the other.
func (h *Host) Leave() {
	for _, e := range h.Engines() {
		e.finishDeliveries()
	}
}

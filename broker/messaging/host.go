package messaging

import (
	"context"
	"iter"
	"maps"
	"slices"
	"sync"
)

// Store is the part of an engine's store that a [Host] uses.
type Store interface {
	// Forget deletes everything of a broker.
	Forget(ctx context.Context, brokerID string) error
	// Err returns why nothing can be stored at present, nil if it can.
	Err() error
}

// Host has the engines of one kind, one per broker. Engines of the same broker
// run one after the other, never at the same time. All methods are safe for
// concurrent use.
type Host[E comparable] struct {
	store Store

	mu    sync.Mutex               // guards the fields below
	locks map[string]chan struct{} // by broker: has an element while an engine runs
	open  map[string]E             // the latest of each broker, until it has ended
}

// NewHost returns a Host without engines.
func NewHost[E comparable](s Store) *Host[E] {
	return &Host[E]{store: s, locks: map[string]chan struct{}{}, open: map[string]E{}}
}

// Start starts a broker's engine and returns at once. The engine waits until an
// older one of the same broker has ended, calls load until that returns no
// error, and calls stop once after the Lifecycle was closed.
func (h *Host[E]) Start(engine E, l *Lifecycle, load func(context.Context) error, stop func()) {
	lock := h.lock(l.brokerID)
	h.mu.Lock()
	defer h.mu.Unlock()
	h.open[l.brokerID] = engine
	go func() {
		defer close(l.done)
		defer h.remove(l.brokerID, engine)
		l.run(lock, load, stop)
	}()
}

// Forget deletes everything that is stored of a broker. It waits until the
// engine of the broker has ended.
func (h *Host[E]) Forget(ctx context.Context, brokerID string) error {
	lock := h.lock(brokerID)
	select {
	case lock <- struct{}{}:
	case <-ctx.Done():
		return ctx.Err()
	}
	defer func() { <-lock }()
	return h.store.Forget(ctx, brokerID)
}

// Healthy returns why engines cannot store anything at present, nil if they
// can.
func (h *Host[E]) Healthy(context.Context) error { return h.store.Err() }

// Engines returns the open engines, sorted by the ids of the brokers.
func (h *Host[E]) Engines() iter.Seq2[string, E] {
	h.mu.Lock()
	open := maps.Clone(h.open)
	h.mu.Unlock()
	return func(yield func(string, E) bool) {
		for _, id := range slices.Sorted(maps.Keys(open)) {
			if !yield(id, open[id]) {
				return
			}
		}
	}
}

// lock returns the lock that an engine of a broker holds while it runs.
func (h *Host[E]) lock(brokerID string) chan struct{} {
	h.mu.Lock()
	defer h.mu.Unlock()
	l := h.locks[brokerID]
	if l == nil {
		l = make(chan struct{}, 1)
		h.locks[brokerID] = l
	}
	return l
}

func (h *Host[E]) remove(brokerID string, engine E) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.open[brokerID] == engine {
		delete(h.open, brokerID)
	}
}

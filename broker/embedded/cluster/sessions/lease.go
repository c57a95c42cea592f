package sessions

import (
	"context"
	"fmt"
	"slices"
	"sync"

	"signalbox/broker/embedded/engine"
)

// leaseOrder orders claims on a client id: the later CONNECT wins, at whatever node.
type leaseOrder struct {
	arrival uint64
	node    int
}

func (r leaseOrder) before(other leaseOrder) bool {
	return r.arrival < other.arrival || r.arrival == other.arrival && r.node < other.node
}

// lease is a claim on a client id in progress at this node, made by a local client or another
// node. There is at most one for a client id.
type lease struct {
	leaseOrder
	clientID string
	ctx      context.Context // cancelled when a later claim needs the lease
	cancel   context.CancelCauseFunc
	done     chan struct{} // closed by release
	leases   *leases
	once     sync.Once

	skipped []int         // nodes that did not respond to a local client's claim, or have an older session of it
	carries bool          // what waits in an older session of this node, which has ended, for the imported one
	offers  []transferKey // of sessions that are being imported; guarded by leases.mu
}

type leases struct {
	mu     sync.Mutex // guards active and the offers of leases; held briefly
	active map[string]*lease
}

func newLeases() *leases { return &leases{active: map[string]*lease{}} }

// acquire returns the lease on a client id. It cancels an earlier lease and waits for its end,
// and fails with engine.ErrLater if there is a later one.
func (t *leases) acquire(ctx, life context.Context, clientID string, r leaseOrder) (*lease, error) {
	for {
		acquired, other := t.tryAcquire(life, clientID, r)
		if acquired != nil {
			return acquired, nil
		}
		if r.before(other.leaseOrder) {
			return nil, engine.ErrLater
		}
		other.cancel(engine.ErrLater)
		select {
		case <-other.done:
		case <-ctx.Done():
			return nil, fmt.Errorf("wait for an earlier claim to end: %w", context.Cause(ctx))
		}
	}
}

// tryAcquire creates a lease or returns the existing one.
func (t *leases) tryAcquire(life context.Context, clientID string, r leaseOrder) (acquired, other *lease) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if other = t.active[clientID]; other != nil {
		return nil, other
	}
	acquired = &lease{leaseOrder: r, clientID: clientID, done: make(chan struct{}), leases: t}
	acquired.ctx, acquired.cancel = context.WithCancelCause(life)
	t.active[clientID] = acquired
	return acquired, nil
}

// addOffer records an offer that the claim has received.
func (t *lease) addOffer(o peerOffer) {
	t.leases.mu.Lock()
	defer t.leases.mu.Unlock()
	t.offers = append(t.offers, transferKey{o.from, o.transferID})
}

// hasOffer reports whether a claim on a client id that is in progress has received an offer.
func (t *leases) hasOffer(clientID string, k transferKey) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	claim := t.active[clientID]
	return claim != nil && slices.Contains(claim.offers, k)
}

// any reports whether there is a lease.
func (t *leases) any() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return len(t.active) > 0
}

// held reports whether there is a lease on a client id.
func (t *leases) held(clientID string) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.active[clientID] != nil
}

// release ends the lease.
func (t *lease) release() {
	t.once.Do(func() {
		t.leases.mu.Lock()
		delete(t.leases.active, t.clientID)
		t.leases.mu.Unlock()
		close(t.done)
		t.cancel(nil)
	})
}

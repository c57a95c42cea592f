package sessions

import (
	"context"
	"fmt"
	"sync"

	"signalbox/broker/embedded/engine"
)

// rank orders claims on one client id: the later CONNECT wins, on whatever node.
type rank struct {
	arrival uint64
	node    int
}

func (r rank) before(other rank) bool {
	return r.arrival < other.arrival || r.arrival == other.arrival && r.node < other.node
}

// turn is a claim on a client id that is under way at this node, of a client
// here or of another node. There is one at a time for a client id.
type turn struct {
	rank
	clientID string
	ctx      context.Context // ends when a later one wants its place
	cancel   context.CancelCauseFunc
	done     chan struct{} // closed at its end
	turns    *turns
	once     sync.Once

	passedOver []int // nodes that did not answer a client's claim
}

type turns struct {
	mu      sync.Mutex // guards current; held for moments only
	current map[string]*turn
}

func newTurns() *turns { return &turns{current: map[string]*turn{}} }

// begin takes the turn on a client id once those before it have ended, which it
// sees to. It fails with engine.ErrLater if there is a later one.
func (t *turns) begin(ctx, life context.Context, clientID string, r rank) (*turn, error) {
	for {
		own, other := t.occupy(life, clientID, r)
		if own != nil {
			return own, nil
		}
		if r.before(other.rank) {
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

// occupy makes a turn or, where there is one, gives that.
func (t *turns) occupy(life context.Context, clientID string, r rank) (own, other *turn) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if other = t.current[clientID]; other != nil {
		return nil, other
	}
	own = &turn{rank: r, clientID: clientID, done: make(chan struct{}), turns: t}
	own.ctx, own.cancel = context.WithCancelCause(life)
	t.current[clientID] = own
	return own, nil
}

// busy tells whether there is a turn on a client id.
func (t *turns) busy(clientID string) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.current[clientID] != nil
}

// end gives the turn up.
func (t *turn) end() {
	t.once.Do(func() {
		t.turns.mu.Lock()
		delete(t.turns.current, t.clientID)
		t.turns.mu.Unlock()
		close(t.done)
		t.cancel(nil)
	})
}

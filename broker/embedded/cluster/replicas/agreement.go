package replicas

import (
	"context"
	"errors"
	"sync"
)

// The kinds of Order.
const (
	Attach  = 1 + iota // every change that was acknowledged is in the replica, and all others wait for it
	Detach             // changes are acknowledged without the replica from now on
	Promote            // the sessions continue from the replica
	End                // those that continued from it have ended at the node that had them
)

// Order is an entry of the cluster's log about the replica of a node's sessions at another node.
type Order struct {
	Kind     byte
	From, At int    // the node of the sessions, and that of the replica
	Stream   uint64 // names the replica; greater for each later one
}

// The outcomes of orders that change nothing.
var (
	ErrPromoted = errors.New("the sessions have continued from their replica")
	ErrVoid     = errors.New("the replica was replaced or detached")
)

// Agreer decides about replicas by the log of the cluster.
type Agreer interface {
	// Agree proposes an order, and returns what Agreement.Apply returns for it. After any other error the order
	// may still be applied.
	Agree(ctx context.Context, o Order) error
	// Last returns what Agreement.Last returns, as far as the log is applied here.
	Last(from, at int) Order
}

// Agreement is the state of all replicas by the log of the cluster. Nodes that apply the same orders have the same
// state. Its methods are safe for concurrent use.
type Agreement struct {
	mu      sync.Mutex // guards entries
	entries map[pair]entry
}

type pair struct{ from, at int }

// entry is the last order about a pair of nodes that changed something.
type entry struct {
	kind   byte // Detach also after End
	stream uint64
}

// Apply applies an order. Orders may be applied several times, and after their proposer has given them up.
func (a *Agreement) Apply(o Order) error {
	a.mu.Lock()
	defer a.mu.Unlock()
	p := pair{o.From, o.At}
	e := a.entries[p]
	outcome := e.outcome(o)
	if outcome != nil || e.kind == o.Kind && e.stream == o.Stream {
		return outcome
	}
	if a.entries == nil {
		a.entries = map[pair]entry{}
	}
	if e = (entry{o.Kind, o.Stream}); e.kind == End {
		e.kind = Detach
	}
	a.entries[p] = e
	return nil
}

// outcome returns why an order changes nothing, nil if it does, or did before.
func (e entry) outcome(o Order) error {
	switch {
	case o.Kind == Promote && (o.Stream != e.stream || e.kind == Detach):
		return ErrVoid
	case o.Kind == End && (o.Stream != e.stream || e.kind == Attach):
		return ErrVoid
	case o.Kind == Promote, o.Kind == End:
		return nil
	case e.kind == Promote:
		return ErrPromoted
	case o.Stream < e.stream, o.Kind == Attach && o.Stream == e.stream && e.kind != Attach:
		return ErrVoid
	}
	return nil
}

// Last returns the last order about the replica of a node's sessions at another one that changed something; its kind
// is 0 without one.
func (a *Agreement) Last(from, at int) Order {
	a.mu.Lock()
	defer a.mu.Unlock()
	e := a.entries[pair{from, at}]
	return Order{Kind: e.kind, From: from, At: at, Stream: e.stream}
}

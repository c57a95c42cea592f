package messaging

import (
	"context"
	"time"
)

// Registry stores the definitions of engines where all nodes of a cluster read and change them. What the
// Store of an engine has is a copy then, beside the messages, which it alone has. All methods are safe for
// concurrent use.
type Registry interface {
	// Definitions returns the definitions of a broker by name. It reports false if the registry does not
	// have those of the broker: the Store has them.
	Definitions(ctx context.Context, brokerID string) (all map[string]Definition, ok bool, err error)
	// Put stores a definition, or deletes it if the document is nil, and then calls store, which does
	// so in the Store. Where the registry does not have the definitions of the broker it calls store only.
	// The revision is that of the definition which the caller has seen, 0 for none; Put returns the new one.
	// Errors are a [*broker.Error]: of kind Conflict if another revision is stored; and of kind Unconfirmed if store
	// failed, after which the registry has the definition.
	Put(ctx context.Context, brokerID, name string, document []byte, rev int64, store func() error) (int64, error)
	// Owner returns the name of the owner of a broker's definitions, for client ids: that of the nodes that share them, or
	// own, and of the broker.
	Owner(brokerID, own string) string
	// Changed returns a channel that is closed when definitions may have changed by Put, of this node or another one.
	Changed() <-chan struct{}
}

// Definition is a definition in a [Registry].
type Definition struct {
	Rev      int64  // never 0; another one after each change
	Document []byte // nil if it cannot be read at present
}

// LocalRegistry is the Registry of a service on its own: it has no definitions.
type LocalRegistry struct{}

// Definitions reports false.
func (LocalRegistry) Definitions(context.Context, string) (map[string]Definition, bool, error) {
	return nil, false, nil
}

// Put calls store.
func (LocalRegistry) Put(_ context.Context, _, _ string, _ []byte, _ int64, store func() error) (int64, error) {
	return 0, store()
}

// Owner returns own, and the broker.
func (LocalRegistry) Owner(brokerID, own string) string { return own + "/" + brokerID }

// Changed returns nil.
func (LocalRegistry) Changed() <-chan struct{} { return nil }

// retryFollow is the pause before what a registry has is read again, after an error.
const retryFollow = time.Second

// Follow has apply called, as a change, by Refresh, as soon as the definitions were loaded, and whenever those of a
// registry may have changed, until Close. It is called once, before the engine can be used, and returns at once.
func (l *Lifecycle) Follow(r Registry, op string, apply func(context.Context) error) {
	if r.Changed() == nil {
		return
	}
	l.follow = func(ctx context.Context) error { return l.Change(ctx, op, apply) }
	go func() {
		for logged := ""; l.Ready(l.ctx) == nil; {
			changed := r.Changed()
			var again <-chan time.Time
			err := l.Refresh(l.ctx)
			switch {
			case err == nil:
				logged = ""
			case l.ctx.Err() == nil:
				again = time.After(retryFollow)
				if text := err.Error(); text != logged {
					logged = text
					l.log.Warn("the "+l.noun+"s are not yet as the cluster has them; trying again", "error", err)
				}
			}
			select {
			case <-changed:
			case <-again:
			case <-l.ctx.Done():
			}
		}
	}()
}

// Refresh puts in force what the registry has, after the definitions were read.
func (l *Lifecycle) Refresh(ctx context.Context) error {
	if l.follow == nil {
		return l.Ready(ctx)
	}
	return l.follow(ctx)
}

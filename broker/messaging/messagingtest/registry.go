// Package messagingtest has a messaging.Registry for tests of engines.
package messagingtest

import (
	"context"
	"maps"
	"sync"

	"signalbox/broker"
	"signalbox/broker/messaging"
)

// Registry has the definitions of one broker in memory. The zero value is not usable; see [New].
type Registry struct {
	mu      sync.Mutex // guards the fields below
	all     map[string]messaging.Definition
	rev     int64
	changed chan struct{}
	err     error
	sealed  bool // documents cannot be read
}

var _ messaging.Registry = (*Registry)(nil)

// New returns a Registry without definitions.
func New() *Registry {
	return &Registry{all: map[string]messaging.Definition{}, changed: make(chan struct{})}
}

// Fail has all calls fail from now on, nil ends that.
func (r *Registry) Fail(err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.err = err
}

// Definitions returns the definitions.
func (r *Registry) Definitions(context.Context, string) (map[string]messaging.Definition, bool, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	all := maps.Clone(r.all)
	for name, d := range all {
		if r.sealed {
			all[name] = messaging.Definition{Rev: d.Rev}
		}
	}
	return all, true, r.err
}

// Seal has no document be readable from now on, or all of them again.
func (r *Registry) Seal(sealed bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.sealed = sealed
	r.notify()
}

// notify has readers read again. r.mu must be held.
func (r *Registry) notify() {
	close(r.changed)
	r.changed = make(chan struct{})
}

// Put stores a definition.
func (r *Registry) Put(_ context.Context, _, name string, document []byte, rev int64, store func() error) (int64, error) {
	next, err := r.put(name, document, rev)
	if err != nil {
		return 0, err
	}
	return next, store()
}

// Set stores a definition as another node does.
func (r *Registry) Set(name string, document []byte) {
	r.mu.Lock()
	rev := r.all[name].Rev
	r.mu.Unlock()
	if _, err := r.put(name, document, rev); err != nil {
		panic(err) // nothing else changes it
	}
}

func (r *Registry) put(name string, document []byte, rev int64) (int64, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	switch {
	case r.err != nil:
		return 0, r.err
	case r.all[name].Rev != rev:
		return 0, &broker.Error{Kind: broker.Conflict, Msg: "it was changed meanwhile"}
	}
	r.rev++
	if document == nil {
		delete(r.all, name)
	} else {
		r.all[name] = messaging.Definition{Rev: r.rev, Document: document}
	}
	r.notify()
	return r.rev, nil
}

// Owner returns own.
func (*Registry) Owner(brokerID, own string) string { return own + "/" + brokerID }

// Changed returns a channel that is closed at the next change.
func (r *Registry) Changed() <-chan struct{} {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.changed
}

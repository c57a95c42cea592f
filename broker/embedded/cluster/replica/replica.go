// Package replica stands between the engine and the store of a node: it decides,
// as the node's part in a cluster changes, whether what the engine hands over is
// kept here, agreed upon with the other nodes first, or not kept at all.
//
// DESIGN.md describes what each mode does, and what happens to changes when one follows
// another. The package must not import a database, raft, or any package
// of this module but broker/embedded/engine.
package replica

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"signalbox/broker/embedded/engine"
)

// Local is the store of this node.
type Local interface {
	engine.Store

	// Apply stores a group of changes, in order, and the index in the cluster's log
	// with them: all or nothing. It returns once they are committed.
	Apply(index uint64, group []*engine.Changes) error
}

// Options are what a Store is made of. All are required.
type Options struct {
	Local Local

	// Encode appends the encoding of a group of changes; Decode reads one.
	Encode func(dst []byte, group []*engine.Changes) []byte
	Decode func(command []byte) ([]*engine.Changes, error)
}

// Proposer hands a command to the consensus, under one leadership of this node. It is
// called by one goroutine, and commands are applied in the order of the calls. It may
// wait for a place in the queue of the consensus, but not for the command. The command
// is not changed afterwards.
//
// wait waits until the command is applied here, or is known not to be, or until the
// context ends. Any error ends the leadership for the Store.
type Proposer func(command []byte) (wait func(ctx context.Context) error)

// Retaining has a batch of retained messages agreed upon. It returns nil once
// that is so and they are in force here. An error that is engine.ErrUncertain says
// that they may come into force, any other that they do not. It is called by one
// goroutine, and returns when the context ends.
type Retaining interface {
	Retain(ctx context.Context, batch []byte) error
}

// Store is an engine.Store in front of that of the node. It is in one of five
// modes, which only its owner changes: Alone at first. A change of mode first has
// all settled that is pending in the former one; what is submitted meanwhile is
// for the new one. It must not be asked for by a CommitNotifier, nor with a lock held
// that a CommitNotifier needs.
//
// All methods are safe for concurrent use.
type Store struct {
	local  Local
	encode func(dst []byte, group []*engine.Changes) []byte
	decode func(command []byte) ([]*engine.Changes, error)

	transition sync.Mutex // held while the mode is changed; guards closed
	closed     bool

	mu   sync.RWMutex // guards mode; held while changes are handed to it
	mode mode
}

var _ engine.Store = (*Store)(nil)

// Open returns a Store that is Alone.
func Open(o Options) *Store {
	return &Store{local: o.Local, encode: o.Encode, decode: o.Decode, mode: alone{o.Local}}
}

// Alone keeps everything here and nowhere else. Where the former mode cannot end,
// because the context does or the node's own store cannot write, it goes on and
// there is an error; so it is with the methods that follow.
func (s *Store) Alone(ctx context.Context) error {
	return s.become(ctx, alone{s.local})
}

// Follow keeps nothing: whatever is submitted is settled as if it were stored,
// and Load finds nothing.
func (s *Store) Follow(ctx context.Context) error {
	return s.become(ctx, newDiscarding(nil))
}

// Refuse stores nothing: whatever is submitted is settled with an error, which Err
// returns as well. It wraps the reason and is an engine.ErrUncertain, since even changes
// that are Owed are not stored. It is for the time between a leadership that the owner
// ends and the next mode, in which the engine has not yet closed its connections: no
// client may be told that something is stored.
func (s *Store) Refuse(ctx context.Context, reason error) error {
	return s.become(ctx, newDiscarding(uncertain{reason}))
}

// Lead has all changes agreed upon by the cluster, in order. The first that is
// not ends the leadership: that, all that is pending and all that comes until the
// next change of mode is settled with one error, which Err returns from then on.
// The channel is closed then, or when another mode follows.
//
// The error is engine.ErrUncertain: what could not be learnt in time may have been
// agreed upon all the same.
func (s *Store) Lead(ctx context.Context, begin Proposer) (lost <-chan struct{}, err error) {
	m := newLeading(s.local, begin, s.encode)
	if err := s.become(ctx, m); err != nil {
		return nil, err
	}
	return m.ctx.Done(), nil
}

// Share has changes to retained messages, and nothing else, agreed upon by the
// cluster, unless they are Owed. All else is kept here.
func (s *Store) Share(ctx context.Context, r Retaining) error {
	return s.become(ctx, newSharing(s.local, r, s.encode))
}

// Apply stores what a command or several hold, with the index in the log of the
// last one: all of them or none. The state machine calls it at every node for
// commands that a Proposer was given.
func (s *Store) Apply(index uint64, commands ...[]byte) error {
	var all []*engine.Changes
	for _, command := range commands {
		group, err := s.decode(command)
		if err != nil {
			return fmt.Errorf("read changes to messages up to entry %d of the cluster's log: %w", index, err)
		}
		all = append(all, group...)
	}
	return s.local.Apply(index, all)
}

// Load returns what is stored here; in a mode that stores nothing, nothing.
func (s *Store) Load(ctx context.Context) (*engine.Snapshot, error) {
	if _, discards := s.current().(*discarding); discards {
		return &engine.Snapshot{}, nil
	}
	return s.local.Load(ctx)
}

// Messages reads messages that are stored here, whatever the mode.
func (s *Store) Messages(ctx context.Context, ids []uint64) ([]*engine.Message, error) {
	return s.local.Messages(ctx, ids)
}

// WaitForCapacity waits while too much is submitted and not yet settled.
func (s *Store) WaitForCapacity() {
	for {
		m := s.current()
		m.waitForCapacity()
		if s.current() == m {
			return
		}
	}
}

// Submit hands over changes; see engine.Store. While retained messages are
// shared, two goroutines tell what became of changes: one about those, one about
// all else.
func (s *Store) Submit(c *engine.Changes) {
	s.mu.RLock()
	defer s.mu.RUnlock()
	s.mode.submit(c)
}

// Err returns why nothing can be stored at present, or nil.
func (s *Store) Err() error { return s.current().err() }

// errClosed is the outcome of changes that are submitted after Close.
var errClosed = errors.New("the store of the broker's messages is closed")

// Close has settled what was submitted, as it would be without Close, and closes
// the node's own store. The context bounds the waiting only; what is not agreed
// upon by then is settled with an error.
func (s *Store) Close(ctx context.Context) error {
	s.transition.Lock()
	defer s.transition.Unlock()
	if s.closed {
		return s.local.Close(ctx)
	}
	s.closed = true
	m := s.current()
	if l, leads := m.(*leading); leads {
		s.set(newGathering())
		l.finish(ctx)
	}
	next := mode(closedMode{})
	if m.keepsHere() {
		next = alone{s.local} // which returns that it is closed
	}
	s.replace(m, next)
	return s.local.Close(ctx)
}

func (s *Store) current() mode {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return s.mode
}

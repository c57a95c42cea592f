// Package replica is the store of an engine that may be part of a cluster. According to
// the node's role in the cluster, it stores the engine's changes in the node's own store,
// replicates them first, or discards them.
//
// DESIGN.md describes what each mode does, and what happens to changes when one follows
// another. The package must not import a database, raft, or any package of this module
// except broker/embedded/engine.
package replica

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"

	"signalbox/broker/embedded/engine"
)

// Local is the store of this node.
type Local interface {
	engine.Store

	// Apply stores a group of changes, in order, together with the index in the cluster's
	// log: all or nothing. It returns once they are committed.
	Apply(index uint64, group []*engine.Changes) error
}

// Options configure a Store. All are required.
type Options struct {
	Local Local

	// Encode appends the encoding of a group of changes; Decode decodes it.
	Encode func(dst []byte, group []*engine.Changes) []byte
	Decode func(command []byte) ([]*engine.Changes, error)
}

// Proposer proposes a command to the consensus, under one leadership of this node. It is
// called by one goroutine, and commands are applied in the order of the calls. It may
// wait for space in the queue of the consensus, but not for the command. The command is
// not changed afterwards.
//
// The returned function waits until the command is applied here, is known not to be
// committed, or the context ends. Any error ends the leadership for the Store.
type Proposer func(command []byte) (wait func(ctx context.Context) error)

// Retaining replicates retained messages.
type Retaining interface {
	// Retain replicates a batch of changes. It returns nil once they are committed and
	// applied here. After engine.ErrUncertain they may still be applied, after any other
	// error they are not. It is called by one goroutine, and returns when the context
	// ends.
	Retain(ctx context.Context, batch []byte) error
}

// Store is an engine.Store in front of the node's own store. It is in one of five modes,
// which only its owner changes: at first Alone. Before a mode ends, the outcome of all
// its pending changes is reported; changes submitted meanwhile are for the next mode. The
// mode must not be changed by a CommitNotifier, nor with a lock held that a CommitNotifier
// needs.
//
// All methods are safe for concurrent use.
type Store struct {
	local  Local
	encode func(dst []byte, group []*engine.Changes) []byte
	decode func(command []byte) ([]*engine.Changes, error)

	transition sync.Mutex // held while the mode changes; guards closed
	closed     bool

	mu   sync.RWMutex         // held while the mode is replaced, and while changes are submitted to it
	mode atomic.Pointer[mode] // replaced with mu held for writing
}

var _ engine.Store = (*Store)(nil)

// Open returns a Store that is Alone.
func Open(o Options) *Store {
	s := &Store{local: o.Local, encode: o.Encode, decode: o.Decode}
	first := mode(alone{o.Local})
	s.mode.Store(&first)
	return s
}

// Alone stores everything in the node's own store only. If the former mode cannot end,
// because the context ends or the node's own store cannot write, it continues and an
// error is returned; so it is with Follow, Refuse, Lead and Share.
func (s *Store) Alone(ctx context.Context) error {
	return s.switchTo(ctx, alone{s.local})
}

// Follow stores nothing: all changes are reported as committed, and Load returns an empty
// snapshot.
func (s *Store) Follow(ctx context.Context) error {
	return s.switchTo(ctx, newDiscarding(nil))
}

// Refuse stores nothing: all changes fail with an error, which Err returns as well. It
// wraps the reason and is an engine.ErrUncertain, since even changes that are Owed are not
// stored. It is for the time between a leadership that the owner ends and the next mode,
// in which the engine has not yet closed its connections: with Follow, publishers would
// get acknowledgements for messages that are not stored.
func (s *Store) Refuse(ctx context.Context, reason error) error {
	return s.switchTo(ctx, newDiscarding(uncertain{reason}))
}

// Lead replicates all changes, in order. The first that fails ends the leadership: it, all
// pending changes and all that are submitted before the next change of mode fail with one
// error, which Err returns from then on. lost is closed then, or when another mode
// follows.
//
// The error is engine.ErrUncertain, because a change may be committed though its outcome
// was not learnt.
func (s *Store) Lead(ctx context.Context, begin Proposer) (lost <-chan struct{}, err error) {
	m := newLeading(s.local, begin, s.encode)
	if err := s.switchTo(ctx, m); err != nil {
		return nil, err
	}
	return m.ctx.Done(), nil
}

// Share replicates changes to retained messages that are not Owed. All other changes are
// stored in the node's own store only.
func (s *Store) Share(ctx context.Context, r Retaining) error {
	return s.switchTo(ctx, newSharing(s.local, r, s.encode))
}

// Apply stores the changes of one or several commands, with the index of the last one in
// the log: all of them or none. The state machine of every node calls it for the commands
// that a Proposer proposed.
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

// Load returns what is stored here, or an empty snapshot in a mode that stores nothing.
func (s *Store) Load(ctx context.Context) (*engine.Snapshot, error) {
	if _, discards := s.current().(*discarding); discards {
		return &engine.Snapshot{}, nil
	}
	return s.local.Load(ctx)
}

// Messages returns messages that are stored here, in any mode.
func (s *Store) Messages(ctx context.Context, ids []uint64) ([]*engine.Message, error) {
	return s.local.Messages(ctx, ids)
}

// WaitForCapacity waits while too many changes are submitted and their outcome is not
// reported.
func (s *Store) WaitForCapacity() {
	for {
		m := s.current()
		m.WaitForCapacity()
		if s.current() == m {
			return
		}
	}
}

// Full reports whether WaitForCapacity would wait.
func (s *Store) Full() bool { return s.current().Full() }

// Submit submits changes; see engine.Store. In the mode Share two goroutines report
// outcomes: one for replicated changes, one for all others.
func (s *Store) Submit(c *engine.Changes) {
	s.mu.RLock()
	defer s.mu.RUnlock()
	s.current().Submit(c)
}

// Err returns why nothing can be stored at present, or nil.
func (s *Store) Err() error { return s.current().Err() }

// errClosed is the outcome of changes that are submitted after Close.
var errClosed = errors.New("the store of the broker's messages is closed")

// Close waits for the outcome of all submitted changes, and closes the node's own store.
// The context bounds the waiting only; changes that are not committed by then fail.
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
	if m.storesLocally() {
		next = alone{s.local} // which returns its own error after Close
	}
	s.replace(m, next)
	return s.local.Close(ctx)
}

func (s *Store) current() mode { return *s.mode.Load() }

package engine

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
)

// ErrUncertain is the outcome of changes that may or may not have been made, and of
// which nothing is kept to be tried again, Owed or not. Whoever waits for them is
// told neither that they were nor that they were not: its connection ends, and
// MQTT has it ask again. A Store passes it, wrapped or not, to Committed, and returns it from Err
// while all changes come to that.
var ErrUncertain = errors.New("it is not known whether the changes were stored")

// errGenerationOver is the outcome of changes of a generation that is over. They were not made.
var errGenerationOver = errors.New("the broker has left its clients to another server meanwhile")

// generation is the time between a Resume and a Suspend of the engine, or the reverse. What
// begins in a generation is stored in it or not at all: after the next one the store
// may have another state, in which the same numbers stand for something else.
type generation struct {
	store    Store
	volatile bool          // nothing is stored: the engine is suspended
	admits   atomic.Bool   // ordinary clients are let in
	admitted chan struct{} // closed when they are for the first time

	ctx context.Context // ends with the generation; for log-ins
	end context.CancelFunc

	mu   sync.RWMutex // guards over; held while handing over to the store, which never waits then
	over bool
}

func newGeneration(s Store, volatile bool) *generation {
	t := &generation{store: s, volatile: volatile, admitted: make(chan struct{})}
	t.ctx, t.end = context.WithCancel(context.Background())
	return t
}

// admit lets ordinary clients in, once.
func (t *generation) admit() {
	t.admits.Store(true)
	close(t.admitted)
}

// submit hands changes to the store. Where nothing is stored they are committed
// without having been, and once the generation is over they are refused; the store's
// goroutine says so, as always.
func (t *generation) submit(c *Changes) {
	t.mu.RLock()
	defer t.mu.RUnlock()
	switch {
	case t.over:
		t.answer(c, errGenerationOver)
	case t.volatile:
		t.answer(c, nil)
	default:
		t.store.Submit(c)
	}
}

// answer settles changes without storing anything.
func (t *generation) answer(c *Changes, err error) {
	if c.Done != nil {
		t.store.Submit(&Changes{Done: verdict{c, err}})
	}
}

// verdict is the outcome of changes, whatever the store says.
type verdict struct {
	changes *Changes
	err     error
}

// Committed passes the verdict on.
func (v verdict) Committed(*Changes, error) { v.changes.Done.Committed(v.changes, v.err) }

// close ends the generation: what was handed to the store by now was, all else is not.
func (t *generation) close() {
	t.mu.Lock()
	t.over = true
	t.mu.Unlock()
	t.admits.Store(false)
	t.end()
}

func (t *generation) isOver() bool {
	t.mu.RLock()
	defer t.mu.RUnlock()
	return t.over
}

// isRestoring reports whether the generation has begun but not all sessions are back.
func (t *generation) isRestoring() bool { return !t.volatile && !t.admits.Load() }

package engine

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
)

// ErrUncertain tells of changes that may or may not have been made, and of
// which nothing is kept to be tried again, Owed or not. Whoever waits for them is
// told neither that they were nor that they were not: its connection ends, and
// MQTT has it ask again. A Store gives it, wrapped or not, to Committed, and as Err
// while all changes come to that.
var ErrUncertain = errors.New("it is not known whether the changes were stored")

// errOver is what becomes of changes of an era that is over. They were not made.
var errOver = errors.New("the broker has left its clients to another server meanwhile")

// era is the time between two turns of the engine, Resume and Suspend. What
// begins in an era is stored in it or not at all: after the next turn the store
// may have another state, in which the same numbers stand for something else.
type era struct {
	store    Store
	volatile bool          // nothing is stored: the engine is suspended
	admits   atomic.Bool   // ordinary clients are let in
	admitted chan struct{} // closed when they are for the first time

	ctx context.Context // ends with the era; for log-ins
	end context.CancelFunc

	mu   sync.RWMutex // guards over; held while handing over to the store, which never waits then
	over bool
}

func newEra(s Store, volatile bool) *era {
	t := &era{store: s, volatile: volatile, admitted: make(chan struct{})}
	t.ctx, t.end = context.WithCancel(context.Background())
	return t
}

// admit lets ordinary clients in, once.
func (t *era) admit() {
	t.admits.Store(true)
	close(t.admitted)
}

// submit hands changes to the store. Where nothing is stored they are committed
// without having been, and once the era is over they are refused; the store's
// goroutine says so, as always.
func (t *era) submit(c *Changes) {
	t.mu.RLock()
	defer t.mu.RUnlock()
	switch {
	case t.over:
		t.answer(c, errOver)
	case t.volatile:
		t.answer(c, nil)
	default:
		t.store.Submit(c)
	}
}

// answer settles changes without storing anything.
func (t *era) answer(c *Changes, err error) {
	if c.Done != nil {
		t.store.Submit(&Changes{Done: verdict{c, err}})
	}
}

// verdict is what becomes of changes, whatever the store says.
type verdict struct {
	changes *Changes
	err     error
}

// Committed passes the verdict on.
func (v verdict) Committed(*Changes, error) { v.changes.Done.Committed(v.changes, v.err) }

// close ends the era: what was handed to the store by now was, all else is not.
func (t *era) close() {
	t.mu.Lock()
	t.over = true
	t.mu.Unlock()
	t.admits.Store(false)
	t.end()
}

func (t *era) isOver() bool {
	t.mu.RLock()
	defer t.mu.RUnlock()
	return t.over
}

// isRestoring tells whether the era has begun but not all sessions are back.
func (t *era) isRestoring() bool { return !t.volatile && !t.admits.Load() }

package engine

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
)

// ErrUncertain is the outcome of changes that may or may not have been made, and that are
// not tried again, Owed or not: the leader has lost its leadership. To refuse the message
// would be as wrong as to acknowledge it, because a client that gets a refusal uses the
// packet identifier for another message. So the client gets no answer, its connection ends,
// and MQTT makes it send again. A Store passes it, wrapped or not, to Committed, and returns
// it from Err while all changes have this outcome.
var ErrUncertain = errors.New("it is not known whether the changes were stored")

// errGenerationOver is the outcome of changes of a generation that is over. They were not
// made.
var errGenerationOver = errors.New("another server serves the clients by now")

// generation is the time between a Resume and a Suspend of the engine, or the reverse. What
// begins in a generation is stored in it or not at all: in a later one the store may have
// another server's state, in which the same IDs belong to something else.
type generation struct {
	store    Store
	volatile bool          // nothing is stored: the engine is suspended
	admits   atomic.Bool   // ordinary clients are accepted
	admitted chan struct{} // closed when admits becomes true

	ctx context.Context // ends with the generation; for log-ins
	end context.CancelFunc

	mu   sync.RWMutex // guards over; held while calling Submit, which never waits
	over bool
}

func newGeneration(s Store, volatile bool) *generation {
	t := &generation{store: s, volatile: volatile, admitted: make(chan struct{})}
	t.ctx, t.end = context.WithCancel(context.Background())
	return t
}

// admit accepts ordinary clients from now on. It is called once.
func (t *generation) admit() {
	t.admits.Store(true)
	close(t.admitted)
}

// submit submits changes to the store. In a volatile generation they are reported as
// committed without being stored, and once the generation is over they fail. In each case
// the outcome is reported on the goroutine of the store.
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

// answer reports an outcome of changes without storing them.
func (t *generation) answer(c *Changes, err error) {
	if c.Done != nil {
		t.store.Submit(&Changes{Done: verdict{c, err}})
	}
}

// verdict reports a fixed outcome of changes.
type verdict struct {
	changes *Changes
	err     error
}

// Committed reports the outcome.
func (v verdict) Committed(*Changes, error) { v.changes.Done.Committed(v.changes, v.err) }

// close ends the generation: nothing is submitted to the store afterwards.
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

// isRestoring reports whether the generation has begun but not all sessions are restored.
func (t *generation) isRestoring() bool { return !t.volatile && !t.admits.Load() }

package access

import (
	"context"
	"errors"
	"log/slog"
	"runtime"
	"sync"
	"sync/atomic"

	"signalbox/broker"
	"signalbox/broker/dynsec"
)

const (
	queueLength = 1024 // changes that may wait; one more is refused
	groupSize   = 512  // changes that share one SQLite transaction at most

	decideAttempts = 4 // how often a group is decided again because the state was replaced
)

// writer is the one goroutine that decides changes. It takes the requests that wait in its
// queue, applies them to a successor of the state, has the difference stored in one
// transaction and the successor published, and only then responds: what was confirmed is
// durable, and what could not be stored has not happened.
type writer struct {
	control *Control
	queue   chan *request

	mu      sync.RWMutex // guards stopped; no request is queued after it is set
	stopped bool
}

// request is one change, atomic as a whole: an error of apply discards all of it.
type request struct {
	apply     func(*dynsec.Tx) error
	onlyFirst bool         // refused on a broker that was initialised before
	reply     chan outcome // buffered by one
	ended     atomic.Bool  // set by the writer when it responds, or by a caller that leaves
}

// outcome is the outcome of a request.
type outcome struct {
	disconnects []dynsec.Disconnect
	err         error
}

// errInitialised is the error of a request that requires a new broker.
var errInitialised = &broker.Error{Kind: broker.Exists, Msg: "the broker was set up before"}

// step is the result of one request of a group.
type step struct {
	request *request
	changes []dynsec.Change
	outcome
}

// stores reports whether there is anything to store.
func (s step) stores() bool { return len(s.changes) > 0 }

func newWriter(c *Control) *writer {
	return &writer{control: c, queue: make(chan *request, queueLength)}
}

// stop refuses further requests; run returns when those that wait are done.
func (w *writer) stop() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.stopped = true
	close(w.queue)
}

// submit queues a request. It never blocks: if the queue is full the request is refused.
func (w *writer) submit(r *request) error {
	w.mu.RLock()
	defer w.mu.RUnlock()
	if w.stopped {
		return &broker.Error{Kind: broker.Unavailable, Msg: "the broker is stopping"}
	}
	select {
	case w.queue <- r:
		return nil
	default:
		return &broker.Error{Kind: broker.Unavailable, Msg: "too many changes are waiting to be stored; try again shortly"}
	}
}

// run processes requests until the queue is closed and empty. After the context has ended
// it does not wait for other brokers.
func (w *writer) run(ctx context.Context) {
	for first := range w.queue {
		w.process(ctx, w.group(first))
	}
}

// group returns the first request with those queued after it, and those of callers that are ready
// to queue theirs: a transaction released them together, and the first one has woken the writer.
func (w *writer) group(first *request) []*request {
	runtime.Gosched()
	group := []*request{first}
	for len(group) < groupSize {
		select {
		case r, ok := <-w.queue:
			if !ok {
				return group
			}
			group = append(group, r)
		default:
			return group
		}
	}
	return group
}

// process decides a group, makes it durable and visible, and responds.
func (w *writer) process(ctx context.Context, group []*request) {
	steps, err := w.decide(ctx, group)
	if err != nil {
		w.fail(steps, err)
		return
	}
	for _, s := range steps {
		w.respond(s.request, s.outcome)
	}
}

// decide applies a group to the published state. If that was replaced before the outcome
// was stored, it starts over.
func (w *writer) decide(ctx context.Context, group []*request) (steps []step, err error) {
	for range decideAttempts {
		state := w.control.state.Load()
		var next *dynsec.State
		next, steps = w.apply(state, group)
		if err = w.control.commit(ctx, state, next, steps); !errors.Is(err, errStale) {
			break
		}
	}
	return steps, err
}

// respond completes a request. If the caller has left, the writer disconnects the clients.
func (w *writer) respond(r *request, out outcome) {
	if r.ended.CompareAndSwap(false, true) {
		r.reply <- out
		return
	}
	w.control.disconnect(out.disconnects)
}

// apply applies a group to a state and returns the one after it.
func (w *writer) apply(state *dynsec.State, group []*request) (next *dynsec.State, steps []step) {
	next, setUp := state, w.control.Initialised()
	for _, r := range group {
		s := step{request: r, outcome: outcome{err: errInitialised}}
		if !r.onlyFirst || !setUp {
			next, s = r.run(next)
		}
		setUp = setUp || s.stores()
		steps = append(steps, s)
	}
	return next, steps
}

// run applies a request to a state and returns the state after it: the same one if the
// request fails.
func (r *request) run(s *dynsec.State) (*dynsec.State, step) {
	tx := s.Begin()
	if err := r.apply(tx); err != nil {
		return s, step{request: r, outcome: outcome{err: err}}
	}
	next, changes, disconnects := tx.End()
	return next, step{request: r, changes: changes, outcome: outcome{disconnects: disconnects}}
}

// fail responds to a group that could not be stored. All of it has failed, because each
// request may have seen the effects of the earlier ones.
func (w *writer) fail(steps []step, err error) {
	level := slog.LevelError
	if broker.KindOf(err) == broker.Unavailable {
		level = slog.LevelWarn // other brokers have to make it possible
	}
	w.control.log.Log(context.Background(), level, "changes to the access control were not made",
		slog.Any("error", err), slog.Any("cause", errors.Unwrap(err)), slog.Int("requests", len(steps)))
	for _, s := range steps {
		w.respond(s.request, outcome{err: err})
	}
}

// change passes a request to the writer and waits for its outcome. The caller must handle
// the disconnects. If the context ends first the change may still happen: it goes on, and
// its disconnects are passed to OnDisconnect.
func (c *Control) change(ctx context.Context, r *request) ([]dynsec.Disconnect, error) {
	r.reply = make(chan outcome, 1)
	if err := ctx.Err(); err != nil {
		return nil, &broker.Error{Kind: broker.Unavailable, Msg: "the request ended before the change began", Err: err}
	}
	if err := c.writer.submit(r); err != nil {
		return nil, err
	}
	select {
	case out := <-r.reply:
		return out.disconnects, out.err
	case <-ctx.Done():
		return r.abandon(ctx)
	}
}

// abandon ends the wait for a request, unless the writer has just responded.
func (r *request) abandon(ctx context.Context) ([]dynsec.Disconnect, error) {
	if !r.ended.CompareAndSwap(false, true) {
		out := <-r.reply
		return out.disconnects, out.err
	}
	return nil, &broker.Error{Kind: broker.Unconfirmed,
		Msg: "the change was not confirmed in time; it may have happened", Err: context.Cause(ctx)}
}

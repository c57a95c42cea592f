package access

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"sync/atomic"

	"signalbox/broker"
	"signalbox/broker/dynsec"
)

const (
	queueLength = 1024 // changes that may wait; one more is refused
	groupSize   = 512  // changes that share one SQLite transaction at most

	decideAttempts = 4 // how often a group is decided anew because the state was replaced
)

// writer is the one goroutine that decides about changes. It takes what waits in
// its queue, applies it to a successor of the state, has the difference stored in
// one transaction and the successor published, and only then answers: what was
// answered is durable, and what could not be stored has not happened.
type writer struct {
	control *Control
	queue   chan *request

	mu      sync.RWMutex // guards stopped, and so that nothing is queued after it
	stopped bool
}

// request is one change, atomic as a whole: an error of apply drops all of it.
type request struct {
	apply func(*dynsec.Tx) error
	first bool         // refused on a broker that was set up before
	reply chan outcome // buffered by one
	ended atomic.Bool  // set by the writer when it answers, or by a caller that leaves
}

// outcome is what became of a request.
type outcome struct {
	cuts []dynsec.Cut
	err  error
}

// errSetUp is the answer to a request that only a new broker takes.
var errSetUp = &broker.Error{Kind: broker.Exists, Msg: "the broker was set up before"}

// step is what one request of a group comes to.
type step struct {
	request *request
	changes []dynsec.Change
	outcome
}

// stores tells whether there is something to store.
func (s step) stores() bool { return len(s.changes) > 0 }

func newWriter(c *Control) *writer {
	return &writer{control: c, queue: make(chan *request, queueLength)}
}

// stop refuses further requests and lets run return when those that wait are
// done.
func (w *writer) stop() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.stopped = true
	close(w.queue)
}

// submit queues a request. It never waits: with a full queue the newcomer loses.
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

// run works until the queue is closed and empty. Once the context ends it waits
// for no other broker.
func (w *writer) run(ctx context.Context) {
	for first := range w.queue {
		w.settle(ctx, w.group(first))
	}
}

// group takes what waits behind the first request.
func (w *writer) group(first *request) []*request {
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

// settle decides about a group, makes it durable and visible, and answers.
func (w *writer) settle(ctx context.Context, group []*request) {
	steps, err := w.decide(ctx, group)
	if err != nil {
		w.fail(steps, err)
		return
	}
	for _, s := range steps {
		w.answer(s.request, s.outcome)
	}
}

// decide does a group on the published state. Where that was replaced before the
// outcome was stored, it begins anew.
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

// answer ends a request. Where the caller has left, nobody but the writer knows
// whom to disconnect.
func (w *writer) answer(r *request, out outcome) {
	if r.ended.CompareAndSwap(false, true) {
		r.reply <- out
		return
	}
	w.control.cut(out.cuts)
}

// apply runs a group on a state and gives the one after it.
func (w *writer) apply(state *dynsec.State, group []*request) (next *dynsec.State, steps []step) {
	next, setUp := state, w.control.Initialised()
	for _, r := range group {
		s := step{request: r, outcome: outcome{err: errSetUp}}
		if !r.first || !setUp {
			next, s = r.run(next)
		}
		setUp = setUp || s.stores()
		steps = append(steps, s)
	}
	return next, steps
}

// run does a request on a state and gives the state after it: the same one if
// the request fails.
func (r *request) run(s *dynsec.State) (*dynsec.State, step) {
	tx := s.Begin()
	if err := r.apply(tx); err != nil {
		return s, step{request: r, outcome: outcome{err: err}}
	}
	next, changes, cuts := tx.End()
	return next, step{request: r, changes: changes, outcome: outcome{cuts: cuts}}
}

// collect joins what the steps of a group changed. Of the change indexes, with
// which the changes of each step end, only the last one counts.
func collect(steps []step) (changes []dynsec.Change, cuts []dynsec.Cut) {
	for _, s := range steps {
		if n := len(changes); n > 0 && s.stores() {
			changes = changes[:n-1]
		}
		changes = append(changes, s.changes...)
		cuts = append(cuts, s.cuts...)
	}
	return changes, cuts
}

// fail answers a group that could not be stored. All of it failed, for each
// request may have seen what those before it did.
func (w *writer) fail(steps []step, err error) {
	level := slog.LevelError
	if broker.KindOf(err) == broker.Unavailable {
		level = slog.LevelWarn // it is for others to make it possible
	}
	w.control.log.Log(context.Background(), level, "changes to the access control were not made",
		slog.Any("err", err), slog.Any("cause", errors.Unwrap(err)), slog.Int("requests", len(steps)))
	for _, s := range steps {
		w.answer(s.request, outcome{err: err})
	}
}

// publish makes a stored state the one that everybody sees. The caller has the
// turn.
func (c *Control) publish(next *dynsec.State, changes []dynsec.Change, cuts []dynsec.Cut) {
	c.state.Store(next)
	c.initialised.Store(true)
	c.accounts.refresh(next, changes, cuts)
	c.logins.forget(changes)
}

// change has the writer do a request and waits for its outcome. The caller must
// deal with the cuts. If the context ends first the change may still happen: it
// goes on, and its cuts are told through OnCut.
func (c *Control) change(ctx context.Context, r *request) ([]dynsec.Cut, error) {
	r.reply = make(chan outcome, 1)
	if err := ctx.Err(); err != nil {
		return nil, &broker.Error{Kind: broker.Unavailable, Msg: "the request ended before the change began", Err: err}
	}
	if err := c.writer.submit(r); err != nil {
		return nil, err
	}
	select {
	case out := <-r.reply:
		return out.cuts, out.err
	case <-ctx.Done():
		return r.leave(ctx)
	}
}

// leave gives a request up, unless it was answered just now.
func (r *request) leave(ctx context.Context) ([]dynsec.Cut, error) {
	if !r.ended.CompareAndSwap(false, true) {
		out := <-r.reply
		return out.cuts, out.err
	}
	return nil, &broker.Error{Kind: broker.Unconfirmed,
		Msg: "the change was not confirmed in time; it may have happened", Err: context.Cause(ctx)}
}

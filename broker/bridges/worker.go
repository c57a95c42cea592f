package bridges

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"runtime"
	"time"

	"signalbox/broker/messaging"
	"signalbox/broker/panics"
)

// Delays and bounds of workers.
const (
	connectTimeout    = 10 * time.Second // for Connect and Check
	checkInterval     = 5 * time.Second  // between checks while the queue is empty
	batchBytes        = 4 << 20          // maximum of a batch, in addition to its first entry
	minBackoff        = 500 * time.Millisecond
	maxConnectBackoff = 30 * time.Second // if only connecting is retried
)

// worker delivers the entries of a queue with one connector.
type worker struct {
	*link
	*assignment
	queue             Queue
	connected         bool
	backoff           time.Duration  // before the next attempt if this one fails
	after             uint64         // entries up to it are done
	attempts          map[uint64]int // of entries that have failed
	singles           int            // number of entries to be delivered one by one
	pendingRejections []Rejection    // not yet stored
	failure           string         // why entries are retried, "" for none
}

// run delivers until its assignment is replaced. A delivery in flight then has finishTimeout to
// finish.
func (w *worker) run() {
	defer w.abort()
	defer discard(w.log, w.connector)
	stop := context.AfterFunc(w.runCtx, func() {
		if messaging.Sleep(w.deliveryCtx, finishTimeout) {
			w.abort()
		}
	})
	defer stop()
	w.resetBackoff()
	for w.runCtx.Err() == nil {
		if err := w.step(); err != nil && w.runCtx.Err() == nil {
			w.awaitBackoff()
		}
	}
	w.setState(false, "")
}

// step does the next step. After an error the next one must wait.
func (w *worker) step() error {
	if len(w.pendingRejections) > 0 {
		if err := w.reject(w.pendingRejections); err != nil {
			return err
		}
	}
	if !w.connected {
		if err := w.connect(); err != nil {
			return err
		}
	}
	batch, err := w.nextBatch()
	switch {
	case err != nil:
		return w.storeFailed(err)
	case len(batch) == 0:
		return w.idle()
	}
	return w.deliver(batch)
}

// connect connects.
func (w *worker) connect() error {
	ctx, cancel := context.WithTimeout(w.runCtx, connectTimeout)
	defer cancel()
	if err, _ := callSafely(w.log, func() error { return w.connector.Connect(ctx) }); err != nil {
		w.problem(false, err)
		return err
	}
	w.connected = true
	w.setState(true, w.failure)
	return nil
}

// idle waits for entries, and checks the target now and then.
func (w *worker) idle() error {
	w.resetBackoff()
	t := time.NewTimer(checkInterval)
	defer t.Stop()
	select {
	case <-w.queue.Ready():
		return nil
	case <-w.runCtx.Done():
		return nil
	case <-w.changed():
	case <-t.C:
	}
	ctx, cancel := context.WithTimeout(w.runCtx, connectTimeout)
	defer cancel()
	err, _ := callSafely(w.log, func() error { return w.connector.Check(ctx) })
	if err != nil && w.runCtx.Err() == nil {
		w.connected = false
		w.problem(false, err)
		return err
	}
	if w.runCtx.Err() == nil {
		w.setState(true, "")
	}
	return nil
}

// changed returns the channel of a Watched connector.
func (w *worker) changed() <-chan struct{} {
	if c, ok := w.connector.(Watched); ok {
		return c.Changed()
	}
	return nil
}

// resetBackoff resets the backoff after a success.
func (w *worker) resetBackoff() {
	w.backoff = milliseconds(w.options.RetryMin)
	if w.backoff == 0 {
		w.backoff = minBackoff
	}
}

// awaitBackoff waits before the next attempt. A change that the connector noticed ends the wait,
// but not before the minimum backoff.
func (w *worker) awaitBackoff() {
	least, now := w.backoff, w.backoff
	longest := milliseconds(w.options.RetryMax)
	if w.options.RetryMin == 0 {
		longest = maxConnectBackoff
	}
	w.resetBackoff()
	least = min(least, w.backoff)
	w.backoff = max(w.backoff, min(2*now, longest))
	if !messaging.Sleep(w.runCtx, least) || now == least {
		return
	}
	t := time.NewTimer(now - least)
	defer t.Stop()
	select {
	case <-t.C:
	case <-w.changed():
	case <-w.runCtx.Done():
	}
}

// setState sets the state, unless the assignment was replaced.
func (w *worker) setState(connected bool, problem string) {
	w.setStateOf(w.assignment, connected, problem)
}

// targetFailed shows an error of the target.
func (w *worker) problem(connected bool, err error) {
	if w.runCtx.Err() == nil {
		w.setState(connected, w.errorText(err))
	}
}

// errorText returns the text of an error, redacted in case it contains secrets.
func (w *worker) errorText(err error) string { return errorTextOf(err, w.secrets) }

// errorTextOf returns the redacted text of an error.
func errorTextOf(err error, secrets []string) string {
	text := err.Error()
	if text == context.DeadlineExceeded.Error() {
		text = "the target did not respond in time"
	}
	return redact(text, secrets)
}

// storeFailed shows an error of the store.
func (w *worker) storeFailed(err error) error {
	if w.runCtx.Err() == nil {
		w.queueFailed(err, w.connected, "the queue of this connection cannot be read or written; see the service's log for the cause")
	}
	return err
}

// nextBatch returns the entries to be delivered next.
func (w *worker) nextBatch() ([]*Entry, error) {
	n := w.options.BatchSize
	if w.singles > 0 {
		n = 1
	}
	for {
		list, err := w.queue.Peek(w.runCtx, w.after, n, batchBytes)
		if err != nil || len(list) == 0 {
			return nil, err
		}
		if w.options.BatchDelay > 0 && len(list) < n && w.failure == "" {
			if list, err = w.awaitMore(list, n); err != nil || len(list) == 0 {
				return nil, err
			}
		}
		last := list[len(list)-1].ID
		w.pruneAttempts(list[0].ID)
		if list, err = w.dropUndeliverable(list); err != nil || len(list) > 0 {
			return list, err
		}
		w.after = last
	}
}

// awaitMore waits for more entries.
func (w *worker) awaitMore(list []*Entry, n int) ([]*Entry, error) {
	t := time.NewTimer(milliseconds(w.options.BatchDelay))
	defer t.Stop()
	for len(list) > 0 && len(list) < n {
		select {
		case <-w.queue.Ready():
		case <-t.C:
			return list, nil
		case <-w.runCtx.Done():
			return nil, w.runCtx.Err()
		}
		var err error
		if list, err = w.queue.Peek(w.runCtx, w.after, n, batchBytes); err != nil {
			return nil, err
		}
	}
	return list, nil
}

// pruneAttempts deletes the attempts of entries before an ID.
func (w *worker) pruneAttempts(before uint64) {
	for id := range w.attempts {
		if id < before {
			delete(w.attempts, id)
		}
	}
}

// dropUndeliverable removes entries that are not delivered: expired ones, and those whose topic
// mapping was deleted.
func (w *worker) dropUndeliverable(list []*Entry) ([]*Entry, error) {
	now := w.engine.host.Now()
	var expired []uint64
	var orphans []Rejection
	kept := list[:0:len(list)]
	for _, e := range list {
		switch {
		case e.ExpiresAt != 0 && e.ExpiresAt <= now.UnixMilli():
			expired = append(expired, e.ID)
		case !w.mappings[e.Mapping]:
			orphans = append(orphans, Rejection{ID: e.ID, Attempts: e.Attempts, At: time.Now(),
				Reason: fmt.Sprintf("the topic mapping %q no longer exists", e.Mapping)})
		default:
			kept = append(kept, e)
		}
	}
	if len(expired) > 0 {
		w.queue.Remove(expired)
		w.expired.Add(int64(len(expired)))
	}
	switch {
	case len(orphans) == 0:
		return kept, nil
	case w.runCtx.Err() != nil: // the next worker may have the mappings
		return nil, w.runCtx.Err()
	}
	return kept, w.reject(orphans)
}

// reject makes dead letters. If the store fails, it is repeated later.
func (w *worker) reject(list []Rejection) error {
	w.pendingRejections = list
	if err := w.queue.Reject(w.deliveryCtx, list); err != nil {
		return w.storeFailed(err)
	}
	w.pendingRejections = nil
	w.rejected.Add(int64(len(list)))
	for _, r := range list {
		delete(w.attempts, r.ID)
	}
	return nil
}

// errPanic is shown if a connector panics; the log has the details.
var errPanic = errors.New("this kind of bridge failed because of a fault of the program, which the service's log describes")

// callSafely calls a connector and recovers from its panic.
func callSafely(log *slog.Logger, call func() error) (err error, panicked bool) {
	defer func() {
		if r := recover(); r != nil {
			panics.Log(context.Background(), log, "a connector of a bridge panicked", panicText(r))
			err, panicked = errPanic, true
		}
	}()
	return call(), false
}

// panicText describes a panic: only the type, unless it is a runtime error, as the value may
// contain secrets.
func panicText(r any) string {
	if err, ok := r.(runtime.Error); ok {
		return err.Error()
	}
	return fmt.Sprintf("%T", r)
}

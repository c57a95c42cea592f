package bridges

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"
)

// deliver has the connector deliver a batch, and processes the results.
func (w *worker) deliver(batch []*Entry) error {
	for _, e := range batch {
		e.Attempts = max(e.Attempts, w.attempts[e.ID])
	}
	results := make([]Result, len(batch))
	ctx, cancel := context.WithTimeout(w.deliveryCtx, milliseconds(w.options.Timeout))
	defer cancel()
	err, panicked := callSafely(w.log, func() error { return w.connector.Deliver(ctx, batch, results) })
	w.singles = max(w.singles-len(batch), 0)
	if panicked {
		w.isolate(batch, results)
	}
	o := w.evaluate(batch, results, err)
	if len(o.done) > 0 {
		w.queue.Remove(o.done)
		w.resetBackoff()
	}
	w.after = o.after
	if len(o.rejected) > 0 {
		if rejectErr := w.reject(o.rejected); rejectErr != nil {
			return rejectErr
		}
	}
	return w.finish(o, err, panicked)
}

// isolate isolates the entry with which the connector panics: the entries are tried one by one, and
// one that fails alone is rejected.
func (w *worker) isolate(batch []*Entry, results []Result) {
	if len(batch) > 1 {
		w.singles = len(batch)
	} else if results[0].State == Pending {
		results[0] = Result{State: Rejected, Reason: "delivering it makes this kind of bridge fail because of a fault of the program"}
	}
}

// outcome is the result of a batch.
type outcome struct {
	done     []uint64
	rejected []Rejection
	pending  int
	after    uint64 // entries up to it are done
	reason   string // of the first pending entry that failed, "" for none
}

// evaluate evaluates the results of a batch.
func (w *worker) evaluate(batch []*Entry, results []Result, err error) (o outcome) {
	o.after = batch[len(batch)-1].ID
	now := time.Now()
	sameReason := err != nil && !slices.ContainsFunc(results, func(r Result) bool { return r.State == Pending && r.Reason != "" })
	for i, e := range batch {
		r := results[i]
		switch r.State {
		case Delivered:
			w.delivered.Add(1)
			o.done = append(o.done, e.ID)
			delete(w.attempts, e.ID)
		case Skipped:
			w.skipped.Add(1)
			o.done = append(o.done, e.ID)
			delete(w.attempts, e.ID)
		case Rejected:
			o.rejected = append(o.rejected, Rejection{ID: e.ID, Reason: redact(r.Reason, w.secrets), Response: redact(r.Response, w.secrets), Attempts: e.Attempts + 1, At: now})
		default:
			reason, response := redact(r.Reason, w.secrets), redact(r.Response, w.secrets)
			if sameReason {
				reason, response = w.errorText(err), responseOf(err, w.secrets)
			}
			w.retryLater(&o, e, reason, response, now)
		}
	}
	return o
}

// retryLater leaves an entry to the next attempt, or rejects it if it has no attempts left. An
// entry without a reason was not tried; one that failed only because the connector is being
// replaced has lost no attempt.
func (w *worker) retryLater(o *outcome, e *Entry, reason, response string, now time.Time) {
	if reason != "" && w.deliveryCtx.Err() == nil {
		e.Attempts++
		if why := w.giveUpReason(e.Attempts); why != "" {
			o.rejected = append(o.rejected, Rejection{ID: e.ID, Reason: why + reason, Response: response, Attempts: e.Attempts, At: now})
			return
		}
		w.attempts[e.ID] = e.Attempts
	}
	if o.pending == 0 {
		o.after = e.ID - 1
	}
	if o.reason == "" {
		o.reason = reason
	}
	o.pending++
}

// giveUpReason returns why an entry with that many attempts is not retried, "" if it is.
func (w *worker) giveUpReason(attempts int) (why string) {
	switch {
	case w.options.RetryMin == 0:
		return "not tried again, as retryMinInsertDelay is 0: "
	case w.options.MaxAttempts == 1:
		return "given up after the first attempt: "
	case w.options.MaxAttempts > 0 && attempts >= w.options.MaxAttempts:
		return fmt.Sprintf("given up after %d attempts: ", attempts)
	}
	return ""
}

// finish updates the state after a delivery. It returns an error if the next one must wait.
func (w *worker) finish(o outcome, err error, panicked bool) error {
	_, lost := errors.AsType[*Lost](err)
	if lost || panicked {
		w.connected = false
	}
	if w.deliveryCtx.Err() != nil {
		return w.deliveryCtx.Err()
	}
	if o.pending > 0 && (o.reason != "" || len(o.done)+len(o.rejected) == 0) {
		w.failure = cmp.Or(o.reason, "the target accepted nothing and gave no reason")
		w.retries.Add(1)
		w.setState(w.connected, w.failure)
		return errors.New(w.failure)
	}
	if !w.connected {
		w.setState(false, w.errorText(err))
		return err
	}
	w.failure = ""
	w.resetBackoff()
	w.setState(true, "")
	return nil
}

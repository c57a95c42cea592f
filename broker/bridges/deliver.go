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
	ctx, cancel := context.WithTimeout(w.hard, milliseconds(w.options.Timeout))
	defer cancel()
	err, panicked := guarded(w.log, func() error { return w.connector.Deliver(ctx, batch, results) })
	w.careful = max(w.careful-len(batch), 0)
	if panicked {
		w.blame(batch, results)
	}
	o := w.sort(batch, results, err)
	if len(o.done) > 0 {
		w.queue.Remove(o.done)
		w.relax()
	}
	w.after = o.after
	if len(o.rejected) > 0 {
		if rejectErr := w.reject(o.rejected); rejectErr != nil {
			return rejectErr
		}
	}
	return w.conclude(o, err, panicked)
}

// blame isolates the entry with which the connector panics: the entries are tried one by one, and
// one that fails alone is rejected.
func (w *worker) blame(batch []*Entry, results []Result) {
	if len(batch) > 1 {
		w.careful = len(batch)
	} else if results[0].State == Pending {
		results[0] = Result{State: Rejected, Reason: "delivering it makes this kind of bridge fail by a fault of the program"}
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

// sort evaluates the results of a batch.
func (w *worker) sort(batch []*Entry, results []Result, err error) (o outcome) {
	o.after = batch[len(batch)-1].ID
	now := time.Now()
	blanket := err != nil && !slices.ContainsFunc(results, func(r Result) bool { return r.State == Pending && r.Reason != "" })
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
			o.rejected = append(o.rejected, Rejection{ID: e.ID, Reason: scrub(r.Reason, w.secrets), Answer: scrub(r.Answer, w.secrets), Attempts: e.Attempts + 1, At: now})
		default:
			reason, answer := scrub(r.Reason, w.secrets), scrub(r.Answer, w.secrets)
			if blanket {
				reason, answer = w.words(err), answerOf(err, w.secrets)
			}
			w.postpone(&o, e, reason, answer, now)
		}
	}
	return o
}

// postpone leaves an entry to the next attempt, or rejects it if it has no attempts left. An
// entry without a reason was not tried; one that failed only because the connector is being
// replaced has lost no attempt.
func (w *worker) postpone(o *outcome, e *Entry, reason, answer string, now time.Time) {
	if reason != "" && w.hard.Err() == nil {
		e.Attempts++
		if why := w.givesUp(e.Attempts); why != "" {
			o.rejected = append(o.rejected, Rejection{ID: e.ID, Reason: why + reason, Answer: answer, Attempts: e.Attempts, At: now})
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

// givesUp returns why an entry with that many attempts is not retried, "" if it is.
func (w *worker) givesUp(attempts int) (why string) {
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

// conclude updates the state after a delivery. It returns an error if the next one must wait.
func (w *worker) conclude(o outcome, err error, panicked bool) error {
	_, lost := errors.AsType[*Lost](err)
	if lost || panicked {
		w.connected = false
	}
	if w.hard.Err() != nil {
		return w.hard.Err()
	}
	if o.pending > 0 && (o.reason != "" || len(o.done)+len(o.rejected) == 0) {
		w.failing = cmp.Or(o.reason, "the target has taken nothing, and says no more")
		w.retries.Add(1)
		w.show(w.connected, w.failing)
		return errors.New(w.failing)
	}
	if !w.connected {
		w.show(false, w.words(err))
		return err
	}
	w.failing = ""
	w.relax()
	w.show(true, "")
	return nil
}

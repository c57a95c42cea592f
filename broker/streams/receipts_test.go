package streams_test

import (
	"fmt"
	"sync"
	"testing"

	"signalbox/broker/messaging"
)

// notifiers returns CommitNotifiers, which must be called once each.
type notifiers struct {
	mu    sync.Mutex // guards the fields below
	given int
	calls map[int][]error
}

type notifier struct {
	of *notifiers
	n  int
}

// next returns a CommitNotifier.
func (r *notifiers) next() messaging.CommitNotifier {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.calls == nil {
		r.calls = map[int][]error{}
	}
	r.given++
	return notifier{r, r.given - 1}
}

func (r notifier) Committed(err error) {
	r.of.mu.Lock()
	defer r.of.mu.Unlock()
	r.of.calls[r.n] = append(r.of.calls[r.n], err)
}

// committed returns how many were called, and how many of these with an error. It
// fails the test if one was called twice.
func (r *notifiers) committed(tb testing.TB) (all, failed int) {
	tb.Helper()
	r.mu.Lock()
	defer r.mu.Unlock()
	for n, calls := range r.calls {
		if len(calls) != 1 {
			tb.Fatalf("message %d was reported %d times: %v", n, len(calls), calls)
		}
		if calls[0] != nil {
			failed++
		}
	}
	return len(r.calls), failed
}

// all waits until all were called.
func (r *notifiers) all(tb testing.TB) {
	tb.Helper()
	await(tb, func() error {
		if n, _ := r.committed(tb); n != r.given {
			return fmt.Errorf("%d of %d messages are reported", n, r.given)
		}
		return nil
	})
}

// wants waits until all were called, and compares the number of errors.
func (r *notifiers) wants(tb testing.TB, failed int) {
	tb.Helper()
	r.all(tb)
	if _, got := r.committed(tb); got != failed {
		tb.Fatalf("%d messages were refused, want %d; the last with: %v", got, failed, r.calls[r.given-1])
	}
}

// taken returns how many CommitNotifiers there are.
func (r *notifiers) taken() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.given
}

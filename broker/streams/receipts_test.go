package streams_test

import (
	"fmt"
	"sync"
	"testing"

	"signalbox/broker/messaging"
)

// receipts are Settlers, which must be called once each.
type receipts struct {
	mu    sync.Mutex // guards what follows
	given int
	calls map[int][]error
}

type receipt struct {
	of *receipts
	n  int
}

// next gives a CommitNotifier.
func (r *receipts) next() messaging.CommitNotifier {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.calls == nil {
		r.calls = map[int][]error{}
	}
	r.given++
	return receipt{r, r.given - 1}
}

func (r receipt) Committed(err error) {
	r.of.mu.Lock()
	defer r.of.mu.Unlock()
	r.of.calls[r.n] = append(r.of.calls[r.n], err)
}

// settled gives how many were called, and how many of these with an error. It
// fails the test where one was called twice.
func (r *receipts) settled(tb testing.TB) (all, failed int) {
	tb.Helper()
	r.mu.Lock()
	defer r.mu.Unlock()
	for n, calls := range r.calls {
		if len(calls) != 1 {
			tb.Fatalf("message %d was settled %d times: %v", n, len(calls), calls)
		}
		if calls[0] != nil {
			failed++
		}
	}
	return len(r.calls), failed
}

// all waits until all are settled.
func (r *receipts) all(tb testing.TB) {
	tb.Helper()
	await(tb, func() error {
		if n, _ := r.settled(tb); n != r.given {
			return fmt.Errorf("%d of %d messages are settled", n, r.given)
		}
		return nil
	})
}

// wants waits until all are settled and holds against failed how many were
// refused.
func (r *receipts) wants(tb testing.TB, failed int) {
	tb.Helper()
	r.all(tb)
	if _, got := r.settled(tb); got != failed {
		tb.Fatalf("%d messages were refused, want %d; the last with: %v", got, failed, r.calls[r.given-1])
	}
}

// taken tells how many Settlers were given.
func (r *receipts) taken() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.given
}

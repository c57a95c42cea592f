package streams_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"testing"

	"signalbox/broker"
	"signalbox/broker/messaging"
	"signalbox/broker/streams"
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

// withdrawable is a CommitNotifier of a message that another node may receive.
type withdrawable struct {
	messaging.CommitNotifier
	withdrawn *atomic.Bool
}

// Withdrawn implements messaging.WithdrawableNotifier.
func (w withdrawable) Withdrawn() bool { return w.withdrawn.Load() }

// TestWithdrawn has messages withdrawn while the broker cannot be reached: they are not published any more when it can, since by
// then another node may have published later ones.
func TestWithdrawn(t *testing.T) {
	t.Parallel()
	for _, persists := range []bool{false, true} {
		t.Run(fmt.Sprint("persists: ", persists), func(t *testing.T) {
			t.Parallel()
			testWithdrawn(t, persists)
		})
	}
}

func testWithdrawn(t *testing.T, persists bool) {
	t.Helper()
	r := start(t, nil, streams.DefaultConfig())
	r.create(to("out"), func(s *broker.StreamSpec) { s.Persist = &persists })
	r.broker.setOnPublish(unreachable)
	var given notifiers
	var withdrawn, never atomic.Bool
	take := func(payload string, by *atomic.Bool) {
		r.broker.deliver(messaging.Message{Topic: "in", Payload: []byte(payload), QoS: 1, At: origin}, withdrawable{given.next(), by})
	}
	take("1", &withdrawn)
	await(t, func() error {
		if r.broker.publishAttempts() == 0 {
			return errors.New("the first message is not tried")
		}
		return nil
	})
	take("2", &withdrawn) // behind the first
	take("3", &never)
	withdrawn.Store(true)
	await(t, func() error {
		if n, _ := given.committed(t); n < 2 {
			return fmt.Errorf("%d messages that are withdrawn have an outcome", n)
		}
		return nil
	})
	r.broker.setOnPublish(nil)
	given.all(t)
	if got := r.broker.payloads("out"); !slices.Equal(got, []string{"3"}) {
		t.Errorf("published: %q", got)
	}
	if !persists {
		return
	}
	if got := r.stored(); slices.Contains(got, "2") || !slices.Contains(got, "3") {
		t.Errorf("stored: %q", got)
	}
}

// turnBroker is a broker whose messages another node takes at times.
type turnBroker struct {
	*fakeBroker
	serving atomic.Pointer[context.Context]
}

// Serving implements messaging.ServingBroker.
func (b *turnBroker) Serving(context.Context) (context.Context, error) { return *b.serving.Load(), nil }

// TestNotServing has another node take the messages of a broker that cannot be reached: what a stream that does not persist has taken
// before, and the broker does not send again, is dropped, as it would follow what that node publishes.
func TestNotServing(t *testing.T) {
	t.Parallel()
	r := start(t, nil, streams.DefaultConfig())
	r.create(to("out"))
	r.stop()
	b := &turnBroker{fakeBroker: r.broker}
	serving, end := context.WithCancel(t.Context())
	b.serving.Store(&serving)
	r.Engine = r.host.Open("b", b)
	must(t, r.Ready(t.Context()))
	r.broker.setOnPublish(unreachable)
	r.broker.deliverAll(1, "1", "2")
	await(t, func() error {
		if r.broker.publishAttempts() < 2 {
			return errors.New("the messages are not kept while this node takes them")
		}
		return nil
	})
	next := t.Context()
	b.serving.Store(&next)
	end() // and the next turn begins at once
	r.counts("two messages dropped", func(s broker.StreamStats) bool { return s.Dropped == 2 })
	r.broker.setOnPublish(nil)
	r.broker.deliverAll(1, "3")
	if got := r.broker.awaitPayloads(t, "out", 1); !slices.Equal(got, []string{"3"}) {
		t.Errorf("published: %q", got)
	}
}

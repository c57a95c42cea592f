package streams_test

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"signalbox/broker"
	"signalbox/broker/streams"
)

// TestEnginesOfABrokerAreSequential checks that the second engine of a broker
// starts when the first has ended, with its results.
func TestEnginesOfABrokerAreSequential(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		disk := open(t, t.TempDir())
		defer func() { must(t, disk.Close(context.Background())) }()
		s := &faultyStore{Store: disk}
		r := start(t, s, streams.DefaultConfig())
		r.create(persist, to("out"))
		entered, leave := r.broker.blockPublish()
		r.broker.deliverAll(1, "x")
		<-entered

		s.on("definitions", func() error { t.Error("the second engine works beside the first"); return nil })
		next := &fakeBroker{}
		second := r.host.Open("b", next)
		synctest.Wait()
		soon, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		wantKind(t, errorOf(second.GetStream(soon, "s")), broker.Unavailable)
		if err := r.Close(soon); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("Close() = %v, though a message is being published", err)
		}
		s.on("definitions", nil)
		leave()
		must(t, r.Close(t.Context()), second.Ready(t.Context()))
		if got := next.filters(); got != "in" {
			t.Errorf("the second engine subscribes to %q", got)
		}
		if n, err := second.CountStreamMessages(t.Context(), "s"); err != nil || n.Count != 1 {
			t.Errorf("the second engine finds %d messages: %v", n.Count, err)
		}
		if got := r.broker.filters(); got != "" {
			t.Errorf("the first engine has left %q subscribed", got)
		}
		must(t, second.Close(t.Context()))
	})
}

// errorOf returns the error of a call with two results.
func errorOf[T any](_ T, err error) error { return err }

// TestEngines lists the open engines, also while another broker's is being
// opened.
func TestEngines(t *testing.T) {
	t.Parallel()
	r := start(t, nil, streams.DefaultConfig())
	other := r.host.Open("a", &fakeBroker{})
	must(t, other.Ready(t.Context()))
	list := func() (all []string) {
		for id := range r.host.Engines() {
			all = append(all, id)
		}
		return all
	}
	if got, want := list(), []string{"a", "b"}; !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
	for range r.host.Engines() {
		break // must be possible
	}
	must(t, other.Close(t.Context()), other.Close(t.Context()))
	if got, want := list(), []string{"b"}; !slices.Equal(got, want) {
		t.Errorf("after one was closed: got %q, want %q", got, want)
	}
	must(t, r.host.Healthy(t.Context()))
}

// TestForget waits for the end of an engine and deletes everything of its
// broker.
func TestForget(t *testing.T) {
	t.Parallel()
	r := start(t, nil, streams.DefaultConfig())
	r.create(persist)
	r.broker.deliverAll(0, "x")
	r.counts("it is kept", func(s broker.StreamStats) bool { return s.Persisted == 1 })
	gone, cancel := context.WithCancel(t.Context())
	cancel()
	if err := r.host.Forget(gone, "b"); !errors.Is(err, context.Canceled) {
		t.Fatalf("Forget() = %v, though the engine is open", err)
	}
	forgotten := make(chan error, 1)
	go func() { forgotten <- r.host.Forget(t.Context(), "b") }()
	r.stop()
	must(t, <-forgotten)
	r.restart()
	if n, err := r.Len(t.Context()); n != 0 || err != nil {
		t.Errorf("%d streams are left: %v", n, err)
	}
	must(t, r.host.Forget(t.Context(), "nobody"))
}

// TestLoadAgain retries to read definitions, or to open streams, after a
// failure, and leaves nothing open meanwhile.
func TestLoadAgain(t *testing.T) {
	t.Parallel()
	for _, op := range []string{"definitions", "open", "state"} {
		t.Run(op, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				disk := open(t, t.TempDir())
				defer func() { must(t, disk.Close(context.Background())) }()
				s := &faultyStore{Store: disk}
				r := start(t, s, streams.DefaultConfig())
				r.create(persist, withQuery(counting), to("out"))
				r.create(named("t"), persist, withQuery(counting))
				r.broker.deliverAll(0, "{}", "{}")
				r.broker.awaitPayloads(t, "out", 2)
				r.stop()

				calls := 0
				s.on(op, func() error {
					// The first of two streams can be opened.
					if calls++; op == "definitions" && calls <= 3 || op != "definitions" && calls%2 == 0 && calls <= 6 {
						return errDisk
					}
					return nil
				})
				begun := time.Now()
				r.Engine = r.host.Open("b", r.broker)
				soon, cancel := context.WithTimeout(t.Context(), time.Second)
				defer cancel()
				_, err := r.GetStream(soon, "s")
				wantKind(t, err, broker.Unavailable)
				if got := r.broker.filters(); got != "" {
					t.Errorf("%q is subscribed to", got)
				}
				must(t, r.Ready(t.Context()))
				if got := time.Since(begun); got < 10*time.Second || got > time.Minute {
					t.Errorf("it took %v", got)
				}
				r.broker.deliverAll(0, "{}")
				if got := r.broker.awaitPayloads(t, "out", 3)[2]; got != `{"n":3}` {
					t.Errorf("the query goes on with %s", got)
				}
				r.stop()
			})
		})
	}
}

// TestCloseWhileLoading closes an engine that reads, waits to retry, or waits
// for another engine.
func TestCloseWhileLoading(t *testing.T) {
	t.Parallel()
	disk := open(t, t.TempDir())
	t.Cleanup(func() { must(t, disk.Close(context.Background())) })
	s := &faultyStore{Store: disk}
	host := streams.NewHost(streams.DefaultConfig(), s, slog.New(slog.DiscardHandler))
	reading, read := make(chan struct{}), make(chan struct{})
	s.on("definitions", func() error {
		close(reading)
		<-read
		return errDisk
	})
	first := host.Open("b", &fakeBroker{})
	wantClosed(t, reading)
	second := host.Open("b", &fakeBroker{})
	must(t, second.Close(t.Context()))
	wantKind(t, errorOf(second.Len(t.Context())), broker.Unavailable)
	closed := make(chan error, 1)
	go func() { closed <- first.Close(t.Context()) }()
	if err := first.Ready(t.Context()); !errors.Is(err, context.Canceled) {
		t.Errorf("Ready() = %v", err)
	}
	close(read)
	must(t, <-closed)

	tries := make(chan struct{}, 1)
	s.on("definitions", func() error {
		select {
		case tries <- struct{}{}:
		default: // it was retried before the engine is closed
		}
		return errDisk
	})
	third := host.Open("b", &fakeBroker{})
	<-tries
	must(t, third.Close(t.Context()))
	s.on("definitions", nil)
	fourth := host.Open("b", &fakeBroker{})
	must(t, fourth.Ready(t.Context()), fourth.Close(t.Context()))
}

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

// TestEnginesTakeTurns has the second engine of a broker begin when the first has
// ended, with what that has done.
func TestEnginesTakeTurns(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		disk := open(t, t.TempDir())
		defer func() { must(t, disk.Close(context.Background())) }()
		s := &faulty{Store: disk}
		r := start(t, s, streams.DefaultConfig())
		r.has(persist, to("out"))
		entered, leave := r.desk.blocks()
		r.desk.say(1, "x")
		<-entered

		s.on("definitions", func() error { t.Error("the second engine works beside the first"); return nil })
		next := &desk{}
		second := r.host.Open("b", next)
		synctest.Wait()
		soon, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		wantKind(t, justErr(second.GetStream(soon, "s")), broker.Unavailable)
		if err := r.Close(soon); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("Close() = %v, though a message is being published", err)
		}
		s.on("definitions", nil)
		leave()
		must(t, r.Close(t.Context()), second.Ready(t.Context()))
		if got := next.subscribed(); got != "in" {
			t.Errorf("the second engine subscribes to %q", got)
		}
		if n, err := second.CountStreamMessages(t.Context(), "s"); err != nil || n.Count != 1 {
			t.Errorf("the second engine finds %d messages: %v", n.Count, err)
		}
		if got := r.desk.subscribed(); got != "" {
			t.Errorf("the first engine has left %q subscribed", got)
		}
		must(t, second.Close(t.Context()))
	})
}

// justErr gives the error of two results.
func justErr[T any](_ T, err error) error { return err }

// TestEngines lists the engines that are open, and another broker's at once.
func TestEngines(t *testing.T) {
	t.Parallel()
	r := start(t, nil, streams.DefaultConfig())
	other := r.host.Open("a", &desk{})
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
		break // as any loop may
	}
	must(t, other.Close(t.Context()), other.Close(t.Context()))
	if got, want := list(), []string{"b"}; !slices.Equal(got, want) {
		t.Errorf("after one was closed: got %q, want %q", got, want)
	}
	must(t, r.host.Healthy(t.Context()))
}

// TestForget waits for the engine's end and deletes all that the broker had.
func TestForget(t *testing.T) {
	t.Parallel()
	r := start(t, nil, streams.DefaultConfig())
	r.has(persist)
	r.desk.say(0, "x")
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
	r.again()
	if n, err := r.Len(t.Context()); n != 0 || err != nil {
		t.Errorf("%d streams are left: %v", n, err)
	}
	must(t, r.host.Forget(t.Context(), "nobody"))
}

// TestLoadAgain reads definitions again that could not be read, or whose streams
// could not be opened, and leaves nothing open in between.
func TestLoadAgain(t *testing.T) {
	t.Parallel()
	for _, op := range []string{"definitions", "open", "state"} {
		t.Run(op, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				disk := open(t, t.TempDir())
				defer func() { must(t, disk.Close(context.Background())) }()
				s := &faulty{Store: disk}
				r := start(t, s, streams.DefaultConfig())
				r.has(persist, asking(counting), to("out"))
				r.has(named("t"), persist, asking(counting))
				r.desk.say(0, "{}", "{}")
				r.desk.comes(t, "out", 2)
				r.stop()

				calls := 0
				s.on(op, func() error {
					// Of two streams the first can be opened.
					if calls++; op == "definitions" && calls <= 3 || op != "definitions" && calls%2 == 0 && calls <= 6 {
						return errDisk
					}
					return nil
				})
				begun := time.Now()
				r.Engine = r.host.Open("b", r.desk)
				soon, cancel := context.WithTimeout(t.Context(), time.Second)
				defer cancel()
				_, err := r.GetStream(soon, "s")
				wantKind(t, err, broker.Unavailable)
				if got := r.desk.subscribed(); got != "" {
					t.Errorf("%q is subscribed to", got)
				}
				must(t, r.Ready(t.Context()))
				if got := time.Since(begun); got < 10*time.Second || got > time.Minute {
					t.Errorf("it took %v", got)
				}
				r.desk.say(0, "{}")
				if got := r.desk.comes(t, "out", 3)[2]; got != `{"n":3}` {
					t.Errorf("the query goes on with %s", got)
				}
				r.stop()
			})
		})
	}
}

// TestCloseWhileLoading ends an engine that reads, waits to read again, or waits
// for its turn.
func TestCloseWhileLoading(t *testing.T) {
	t.Parallel()
	disk := open(t, t.TempDir())
	t.Cleanup(func() { must(t, disk.Close(context.Background())) })
	s := &faulty{Store: disk}
	host := streams.NewHost(streams.DefaultConfig(), s, slog.New(slog.DiscardHandler))
	reading, read := make(chan struct{}), make(chan struct{})
	s.on("definitions", func() error {
		close(reading)
		<-read
		return errDisk
	})
	first := host.Open("b", &desk{})
	closes(t, reading)
	second := host.Open("b", &desk{})
	must(t, second.Close(t.Context()))
	wantKind(t, justErr(second.Len(t.Context())), broker.Unavailable)
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
		default: // it has tried again before it is closed
		}
		return errDisk
	})
	third := host.Open("b", &desk{})
	<-tries
	must(t, third.Close(t.Context()))
	s.on("definitions", nil)
	fourth := host.Open("b", &desk{})
	must(t, fourth.Ready(t.Context()), fourth.Close(t.Context()))
}

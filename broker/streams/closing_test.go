package streams_test

import (
	"context"
	"errors"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"signalbox/broker"
	"signalbox/broker/messaging"
	"signalbox/broker/streams"
)

// TestClosed checks that a closed engine refuses every operation without
// waiting.
func TestClosed(t *testing.T) {
	t.Parallel()
	r := start(t, nil, streams.DefaultConfig())
	r.create(persist)
	r.stop()
	ctx := t.Context()
	for name, do := range operations(r.Engine) {
		e := wantKind(t, do(ctx, "s"), broker.Unavailable)
		if e.Op == "" || e.Msg == "" {
			t.Errorf("%s: the error is %+v", name, e)
		}
	}
	if err := r.Ready(ctx); err == nil {
		t.Error("it is ready")
	}
	if got := r.Streams(); len(got) != 0 {
		t.Errorf("it has %d streams", len(got))
	}
	r.stop() // a second call is harmless
}

// operations are all operations on a stream.
func operations(e *streams.Engine) map[string]func(context.Context, string) error {
	return map[string]func(context.Context, string) error{
		"list": func(ctx context.Context, _ string) error {
			return errorOf(e.ListStreams(ctx, broker.ListOptions[broker.Stream]{Count: -1}))
		},
		"len":    func(ctx context.Context, _ string) error { return errorOf(e.Len(ctx)) },
		"get":    func(ctx context.Context, s string) error { return errorOf(e.GetStream(ctx, s)) },
		"create": func(ctx context.Context, s string) error { return e.CreateStream(ctx, spec(named(s+"2"))) },
		"modify": func(ctx context.Context, s string) error { return e.ModifyStream(ctx, spec(named(s), persist), true) },
		"delete": func(ctx context.Context, s string) error { return e.DeleteStream(ctx, s) },
		"count":  func(ctx context.Context, s string) error { return errorOf(e.CountStreamMessages(ctx, s)) },
		"clear":  func(ctx context.Context, s string) error { return e.ClearStreamMessages(ctx, s, nil, nil) },
		"replay": func(ctx context.Context, s string) error {
			return e.ReplayStream(ctx, broker.StreamReplay{StreamName: s, ReplayTopic: "again", Limit: -1})
		},
		"stop": func(ctx context.Context, s string) error { return e.StopStreamReplay(ctx, s) },
	}
}

// TestChangeWhileClosing closes an engine during a change. The change is
// completed and leaves nothing open; changes that wait are refused.
func TestChangeWhileClosing(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		disk := open(t, t.TempDir())
		defer func() { must(t, disk.Close(context.Background())) }()
		s := &faultyStore{Store: disk}
		r := start(t, s, streams.DefaultConfig())
		storing, stored := make(chan struct{}), make(chan struct{})
		s.on("put", func() error {
			close(storing)
			<-stored
			return nil
		})
		created, waiting := make(chan error, 1), make(chan error, 1)
		go func() { created <- r.CreateStream(t.Context(), spec(persist)) }()
		<-storing
		go func() { waiting <- r.CreateStream(t.Context(), spec(named("waiting"))) }()
		synctest.Wait()
		soon, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if err := r.Close(soon); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("Close() = %v while a stream is created", err)
		}
		wantKind(t, r.CreateStream(t.Context(), spec(named("late"))), broker.Unavailable)
		wantKind(t, <-waiting, broker.Unavailable)
		close(stored)
		must(t, <-created)
		r.stop()
		if got := r.broker.filters(); got != "" {
			t.Errorf("%q stays subscribed to", got)
		}
		s.on("put", nil)
		r.restart()
		if got := r.broker.filters(); got != "in" {
			t.Errorf("the next engine subscribes to %q", got)
		}
		r.stop()
	})
}

// TestCloseDuringOperations closes an engine during all kinds of operations;
// another one can be opened.
func TestCloseDuringOperations(t *testing.T) {
	t.Parallel()
	r := start(t, nil, streams.DefaultConfig())
	for range 10 {
		var busy sync.WaitGroup
		var given notifiers
		for name, do := range operations(r.Engine) {
			for _, stream := range []string{"x", "y"} {
				busy.Go(func() {
					for {
						err := do(context.Background(), stream)
						switch kind := broker.KindOf(err); {
						case err == nil, kind == broker.NotFound, kind == broker.Exists, kind == broker.Conflict:
						case kind == broker.Unavailable:
							return
						default:
							t.Errorf("%s: %v: %v", name, err, errors.Unwrap(err))
							return
						}
					}
				})
			}
		}
		busy.Go(func() {
			for range 500 {
				r.broker.deliver(messaging.Message{Topic: "in", QoS: 1}, given.next())
			}
		})
		must(t, errorOf(r.ListStreams(t.Context(), broker.ListOptions[broker.Stream]{})))
		await(t, func() error {
			if n := r.broker.subscriptions(); n == 0 {
				return errors.New("nothing has been subscribed to")
			}
			return nil
		})
		r.stop()
		busy.Wait()
		if got := r.broker.filters(); got != "" {
			t.Fatalf("%q stays subscribed to", got)
		}
		r.restart()
	}
}

// TestCloseDrainsTheQueue stores and publishes all messages that were taken
// before Close.
func TestCloseDrainsTheQueue(t *testing.T) {
	t.Parallel()
	r := start(t, nil, streams.DefaultConfig())
	r.create(persist, to("out"))
	var given notifiers
	for _, p := range numbers(0, 3000) {
		r.broker.deliver(messaging.Message{Topic: "in", Payload: []byte(p), QoS: 1}, given.next())
	}
	r.stop()
	given.wants(t, 0)
	if got := r.broker.payloads("out"); len(got) != 3000 || got[2999] != "2999" {
		t.Errorf("%d messages were published", len(got))
	}
	r.restart()
	if got := r.stored(); len(got) != 3000 || got[0] != "0" || got[2999] != "2999" {
		t.Errorf("%d messages were kept", len(got))
	}
}

// TestCloseTimesOut drops what a broker that cannot be reached, or does not
// respond, has not taken within the drain timeout. Messages are stored all the
// same.
func TestCloseTimesOut(t *testing.T) {
	t.Parallel()
	for name, answer := range map[string]func(context.Context, []messaging.Message) (int, int, error){
		"unreachable": unreachable,
		"silent": func(ctx context.Context, _ []messaging.Message) (int, int, error) {
			<-ctx.Done()
			return 0, 0, ctx.Err()
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				disk := open(t, t.TempDir())
				defer func() { must(t, disk.Close(context.Background())) }()
				r := start(t, disk, streams.DefaultConfig())
				r.create(persist, to("out"))
				r.broker.setOnPublish(answer)
				var given notifiers
				for range 1000 {
					r.broker.deliver(messaging.Message{Topic: "in", QoS: 1}, given.next())
				}
				synctest.Wait()
				begun := time.Now()
				r.stop()
				if got := time.Since(begun); got < time.Second || got > 3*time.Second {
					t.Errorf("it took %v", got)
				}
				given.wants(t, 0)
				r.broker.setOnPublish(nil)
				r.restart()
				if got := len(r.stored()); got != 1000 {
					t.Errorf("%d messages were kept", got)
				}
				r.stop()
			})
		})
	}
}

// TestCloseTriesOnce retries once to publish what waits for a broker that has
// recovered.
func TestCloseTriesOnce(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		disk := open(t, t.TempDir())
		defer func() { must(t, disk.Close(context.Background())) }()
		r := start(t, disk, streams.DefaultConfig())
		r.create(to("out"))
		r.broker.setOnPublish(unreachable)
		r.broker.deliverAll(1, numbers(0, 1000)...)
		<-time.After(time.Minute)
		r.broker.setOnPublish(nil)
		r.stop()
		if got := len(r.broker.payloads("out")); got != 1000 {
			t.Errorf("%d messages were published", got)
		}
	})
}

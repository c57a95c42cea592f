package streams_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"

	"github.com/google/go-cmp/cmp"

	"signalbox/broker"
	"signalbox/broker/messaging"
	"signalbox/broker/streams"
)

// names returns the names of a page.
func names(t *testing.T, r *fixture, o broker.ListOptions[broker.Stream]) (all []string, total int) {
	t.Helper()
	page, err := r.ListStreams(t.Context(), o)
	must(t, err)
	for s, err := range page.Items {
		must(t, err)
		all = append(all, s.StreamName)
	}
	return all, page.Total
}

// TestList requests parts of the list.
func TestList(t *testing.T) {
	t.Parallel()
	r := start(t, nil, streams.DefaultConfig())
	for _, name := range []string{"c", "a", "b2", "ä", "b1"} {
		r.create(named(name))
	}
	b := broker.MatchFunc(func(s broker.Stream) bool { return strings.HasPrefix(s.StreamName, "b") })
	for _, test := range []struct {
		o     broker.ListOptions[broker.Stream]
		want  string
		total int
	}{
		{broker.ListOptions[broker.Stream]{Count: -1}, "a b1 b2 c ä", 5},
		{broker.ListOptions[broker.Stream]{Count: 2}, "a b1", 5},
		{broker.ListOptions[broker.Stream]{Offset: 1, Count: 2}, "b1 b2", 5},
		{broker.ListOptions[broker.Stream]{Offset: 4, Count: 10}, "ä", 5},
		{broker.ListOptions[broker.Stream]{Offset: 9, Count: -1}, "", 5},
		{broker.ListOptions[broker.Stream]{Count: 0}, "", 5},
		{broker.ListOptions[broker.Stream]{Count: -1, Match: b}, "b1 b2", 2},
		{broker.ListOptions[broker.Stream]{Offset: 1, Count: 5, Match: b}, "b2", 2},
	} {
		got, total := names(t, r, test.o)
		if strings.Join(got, " ") != test.want || total != test.total {
			t.Errorf("%+v: got %q of %d, want %q of %d", test.o, got, total, test.want, test.total)
		}
	}
	page, err := r.ListStreams(t.Context(), broker.ListOptions[broker.Stream]{Count: -1})
	must(t, err)
	for range page.Items {
		break // must be possible
	}
}

// TestRates measures the messages that streams receive: not those of one that was deleted or
// created again meanwhile, and for as long as the caller waits.
func TestRates(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		disk := open(t, t.TempDir())
		defer func() { must(t, disk.Close(context.Background())) }()
		r := start(t, disk, streams.DefaultConfig())
		for _, name := range []string{"again", "busy", "gone", "idle"} {
			r.create(named(name), from(name))
		}
		send := func(topic string, n int) {
			for range n {
				r.broker.deliver(messaging.Message{Topic: topic}, nil)
			}
		}
		send("again", 5)
		send("busy", 5)
		measured := make(chan string, 1)
		measure := func(ctx context.Context) {
			page, err := r.ListStreams(ctx, broker.ListOptions[broker.Stream]{Count: -1, Rates: true})
			text := fmt.Sprint(broker.KindOf(err) == broker.Unavailable)
			if err == nil {
				text = ""
				for s := range page.Items {
					if text += " " + s.StreamName; s.Rate != nil {
						text += fmt.Sprintf(" %.1f of %d", *s.Rate, s.Stats.Received)
					}
				}
			}
			measured <- text
		}
		go measure(t.Context())
		synctest.Wait()
		send("busy", 9)
		must(t, r.DeleteStream(t.Context(), "gone"), r.DeleteStream(t.Context(), "again"))
		r.create(named("again"), from("again"))
		if got, want := <-measured, " again busy 10.0 of 14 gone idle 0.0 of 0"; got != want {
			t.Errorf("got %q, want %q", got, want)
		}
		ctx, cancel := context.WithCancel(t.Context())
		go measure(ctx)
		synctest.Wait()
		cancel()
		if got := <-measured; got != "true" {
			t.Errorf("a caller that does not wait: %q", got)
		}
		r.stop()
	})
}

// TestDefinitionsLast checks that definitions are the same in the next engine.
func TestDefinitionsLast(t *testing.T) {
	t.Parallel()
	r := start(t, nil, streams.DefaultConfig())
	r.create(to("out"), persist, withQuery(counting), func(s *broker.StreamSpec) { s.TTL, s.Key, s.TextName = new(int64(60)), new("k"), new("text") })
	r.create(named("idle"), from("a/#"), inactive)
	r.create(named("gone"))
	r.modify(func(s *broker.StreamSpec) { s.TextDescription = new("changed") })
	must(t, r.DeleteStream(t.Context(), "gone"))
	before := r.Streams()
	if s := before[1]; len(before) != 2 || s.TextDescription != "changed" || !s.Process || s.TTL != 60 || s.Key != "k" {
		t.Errorf("got %+v", before)
	}
	r.restart()
	if diff := cmp.Diff(before, r.Streams()); diff != "" {
		t.Errorf("-before +after:\n%s", diff)
	}
	if got := r.broker.filters(); got != "in" {
		t.Errorf("%q is subscribed to", got)
	}
}

// TestSubscription changes the source and whether the stream is active, and
// compares the subscriptions.
func TestSubscription(t *testing.T) {
	t.Parallel()
	r := start(t, nil, streams.DefaultConfig())
	r.create(to("out"))
	for _, test := range []struct {
		change func(*broker.StreamSpec)
		want   string
		made   int
	}{
		{func(s *broker.StreamSpec) { s.TextName = new("x") }, "in", 1},
		{from("other"), "other", 2},
		{inactive, "", 2},
		{from("in"), "", 2},
		{func(s *broker.StreamSpec) { s.Active = new(true) }, "in", 3},
		{func(s *broker.StreamSpec) { s.Active = new(true) }, "in", 3},
	} {
		r.modify(test.change)
		if got, made := r.broker.filters(), r.broker.subscriptions(); got != test.want || made != test.made {
			t.Errorf("%q is subscribed to after %d subscriptions, want %q and %d", got, made, test.want, test.made)
		}
	}
	r.broker.deliverAll(0, "x")
	r.broker.awaitPayloads(t, "out", 1)
	must(t, r.DeleteStream(t.Context(), "s"))
	if got := r.broker.filters(); got != "" {
		t.Errorf("%q is subscribed to after the end", got)
	}
	wantKind(t, errorOf(r.GetStream(t.Context(), "s")), broker.NotFound)
}

// TestUnknownStream checks that every operation on an unknown stream is
// NotFound.
func TestUnknownStream(t *testing.T) {
	t.Parallel()
	r := start(t, nil, streams.DefaultConfig())
	for name, do := range operations(r.Engine) {
		if slices.Contains([]string{"list", "len", "create"}, name) {
			continue
		}
		e := wantKind(t, do(t.Context(), "nobody"), broker.NotFound)
		if !strings.HasSuffix(e.Msg, "not found") || e.Op == "" {
			t.Errorf("%s: %+v", name, e)
		}
	}
}

// TestCreateOnce creates a stream several times concurrently; one call
// succeeds.
func TestCreateOnce(t *testing.T) {
	t.Parallel()
	r := start(t, nil, streams.DefaultConfig())
	var made, taken atomic.Int32
	var busy sync.WaitGroup
	for range 20 {
		busy.Go(func() {
			switch err := r.CreateStream(t.Context(), spec()); {
			case err == nil:
				made.Add(1)
			case broker.KindOf(err) == broker.Exists:
				taken.Add(1)
			default:
				t.Error(err)
			}
		})
	}
	busy.Wait()
	if made.Load() != 1 || taken.Load() != 19 || r.broker.subscriptions() != 1 {
		t.Errorf("made %d times, refused %d times, subscribed %d times", made.Load(), taken.Load(), r.broker.subscriptions())
	}
}

// TestStoreFails checks that a change which the store refuses has no effect.
func TestStoreFails(t *testing.T) {
	t.Parallel()
	disk := open(t, t.TempDir())
	t.Cleanup(func() { must(t, disk.Close(context.Background())) })
	s := &faultyStore{Store: disk}
	r := start(t, s, streams.DefaultConfig())
	ctx := t.Context()
	r.create(to("out"), persist)
	r.broker.deliverAll(0, "1")
	r.broker.awaitPayloads(t, "out", 1)

	s.fails("put")
	wantKind(t, r.CreateStream(ctx, spec(named("t"))), broker.Internal)
	err := r.ModifyStream(ctx, spec(to("elsewhere")), false)
	if wantKind(t, err, broker.Internal); !errors.Is(err, errDisk) {
		t.Errorf("the cause is lost: %v", err)
	}
	s.on("put", nil)
	s.fails("open")
	wantKind(t, r.CreateStream(ctx, spec(named("t"))), broker.Internal)
	s.on("open", nil)
	r.create(named("t"), from("t")) // no remains of the failed attempt

	s.fails("delete")
	wantKind(t, r.DeleteStream(ctx, "s"), broker.Internal)
	r.broker.deliverAll(0, "2")
	r.broker.awaitPayloads(t, "out", 2)
	r.counts("it goes on", func(s broker.StreamStats) bool {
		return s.Received == 2 && s.Republished == 2 && s.Persisted == 2 && s.Messages == 2
	})
	s.fails("open")
	wantKind(t, r.DeleteStream(ctx, "s"), broker.Internal)
	s.on("delete", nil)
	s.on("open", nil)
	must(t, r.DeleteStream(ctx, "s"))

	r.create(persist)
	s.fails("count")
	wantKind(t, errorOf(r.CountStreamMessages(ctx, "s")), broker.Internal)
	wantKind(t, r.ReplayStream(ctx, broker.StreamReplay{StreamName: "s", ReplayTopic: "again", Limit: -1}), broker.Internal)
}

// TestStateOutlivesDelete checks that a failed deletion keeps the state of the
// query and the statistics.
func TestStateOutlivesDelete(t *testing.T) {
	t.Parallel()
	disk := open(t, t.TempDir())
	t.Cleanup(func() { must(t, disk.Close(context.Background())) })
	s := &faultyStore{Store: disk}
	r := start(t, s, streams.DefaultConfig())
	r.create(to("out"), withQuery(counting)) // without messages, so the state is stored nowhere else
	r.next()
	s.fails("delete")
	wantKind(t, r.DeleteStream(t.Context(), "s"), broker.Internal)
	if got := r.next(); got != `{"n":2}` {
		t.Errorf("it goes on with %s", got)
	}
}

// TestCanceledChange cancels changes. One that waits for another is abandoned;
// one that has begun is completed.
func TestCanceledChange(t *testing.T) {
	t.Parallel()
	disk := open(t, t.TempDir())
	t.Cleanup(func() { must(t, disk.Close(context.Background())) })
	s := &faultyStore{Store: disk}
	r := start(t, s, streams.DefaultConfig())
	storing, stored := make(chan struct{}), make(chan struct{})
	s.on("put", func() error {
		close(storing)
		<-stored
		return nil
	})
	first, cancel := context.WithCancel(t.Context())
	created := make(chan error, 1)
	go func() { created <- r.CreateStream(first, spec()) }()
	wantClosed(t, storing)
	cancel()
	e := wantKind(t, r.CreateStream(first, spec(named("t"))), broker.Unavailable)
	if !errors.Is(e, context.Canceled) {
		t.Errorf("the cause is %v", e.Err)
	}
	close(stored)
	must(t, <-created)
	if got := r.broker.filters(); got != "in" {
		t.Errorf("%q is subscribed to", got)
	}
}

// TestDeleteWhileUsed deletes a stream during other operations, which return
// NotFound. The sources of its messages are notified.
func TestDeleteWhileUsed(t *testing.T) {
	t.Parallel()
	r := start(t, nil, streams.DefaultConfig())
	var given notifiers
	for range 30 {
		r.create(persist, to("out"))
		var busy sync.WaitGroup
		busy.Go(func() {
			for range 200 {
				r.broker.deliverTracked(messaging.Message{Topic: "in", QoS: 1}, &given)
			}
		})
		for _, name := range []string{"count", "clear", "replay", "get", "modify"} {
			do := operations(r.Engine)[name]
			busy.Go(func() {
				for {
					switch err := do(t.Context(), "s"); {
					case broker.KindOf(err) == broker.NotFound:
						return
					case err != nil && broker.KindOf(err) != broker.Conflict:
						t.Errorf("%s: %v: %v", name, err, errors.Unwrap(err))
						return
					}
				}
			})
		}
		must(t, r.DeleteStream(t.Context(), "s"))
		busy.Wait()
	}
	given.all(t)
}

// TestRefusedSource checks that the record of an active stream has an error if
// the broker denies the subscription to its source.
func TestRefusedSource(t *testing.T) {
	t.Parallel()
	r := start(t, nil, streams.DefaultConfig())
	r.create(named("free"))
	r.create(named("barred"), from("forbidden/#"))
	r.create(named("idle"), from("forbidden/#"), inactive)
	for name, want := range map[string]bool{"free": false, "barred": true, "idle": false} {
		s, err := r.GetStream(t.Context(), name)
		must(t, err)
		if got := s.Error != ""; got != want {
			t.Errorf("%s: error %q", name, s.Error)
		}
	}
}

package streams_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/google/go-cmp/cmp"

	"signalbox/broker"
	"signalbox/broker/messaging"
	"signalbox/broker/streams"
)

// names gives the names of a page.
func names(t *testing.T, r *rig, o broker.ListOptions[broker.Stream]) (all []string, total int) {
	t.Helper()
	page, err := r.ListStreams(t.Context(), o)
	must(t, err)
	for s, err := range page.Items {
		must(t, err)
		all = append(all, s.StreamName)
	}
	return all, page.Total
}

// TestList gives parts of the list, in order of names.
func TestList(t *testing.T) {
	t.Parallel()
	r := start(t, nil, streams.DefaultConfig())
	for _, name := range []string{"c", "a", "b2", "ä", "b1"} {
		r.has(named(name))
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
		break // as any loop may
	}
}

// TestDefinitionsLast through the end of an engine, as they were made.
func TestDefinitionsLast(t *testing.T) {
	t.Parallel()
	r := start(t, nil, streams.DefaultConfig())
	r.has(to("out"), persist, asking(counting), func(s *broker.StreamSpec) { s.TTL, s.Key, s.TextName = new(int64(60)), new("k"), new("text") })
	r.has(named("idle"), from("a/#"), inactive)
	r.has(named("gone"))
	r.modify(func(s *broker.StreamSpec) { s.TextDescription = new("changed") })
	must(t, r.DeleteStream(t.Context(), "gone"))
	before := r.Streams()
	if s := before[1]; len(before) != 2 || s.TextDescription != "changed" || !s.Process || s.TTL != 60 || s.Key != "k" {
		t.Errorf("got %+v", before)
	}
	r.again()
	if diff := cmp.Diff(before, r.Streams()); diff != "" {
		t.Errorf("-before +after:\n%s", diff)
	}
	if got := r.desk.subscribed(); got != "in" {
		t.Errorf("%q is subscribed to", got)
	}
}

// TestSubscription follows the source and whether the stream is active.
func TestSubscription(t *testing.T) {
	t.Parallel()
	r := start(t, nil, streams.DefaultConfig())
	r.has(to("out"))
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
		if got, made := r.desk.subscribed(), r.desk.subscriptions(); got != test.want || made != test.made {
			t.Errorf("%q is subscribed to after %d subscriptions, want %q and %d", got, made, test.want, test.made)
		}
	}
	r.desk.say(0, "x")
	r.desk.comes(t, "out", 1)
	must(t, r.DeleteStream(t.Context(), "s"))
	if got := r.desk.subscribed(); got != "" {
		t.Errorf("%q is subscribed to after the end", got)
	}
	wantKind(t, justErr(r.GetStream(t.Context(), "s")), broker.NotFound)
}

// TestUnknownStream is not found, whatever is to be done with it.
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

// TestCreateOnce has one of those succeed who create a name at the same time.
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
	if made.Load() != 1 || taken.Load() != 19 || r.desk.subscriptions() != 1 {
		t.Errorf("made %d times, refused %d times, subscribed %d times", made.Load(), taken.Load(), r.desk.subscriptions())
	}
}

// TestStoreFails leaves all as it was where the store cannot make a change.
func TestStoreFails(t *testing.T) {
	t.Parallel()
	disk := open(t, t.TempDir())
	t.Cleanup(func() { must(t, disk.Close(context.Background())) })
	s := &faulty{Store: disk}
	r := start(t, s, streams.DefaultConfig())
	ctx := t.Context()
	r.has(to("out"), persist)
	r.desk.say(0, "1")
	r.desk.comes(t, "out", 1)

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
	r.has(named("t"), from("t")) // nothing is in its way

	s.fails("delete")
	wantKind(t, r.DeleteStream(ctx, "s"), broker.Internal)
	r.desk.say(0, "2")
	r.desk.comes(t, "out", 2)
	r.counts("it goes on", func(s broker.StreamStats) bool {
		return s.Received == 2 && s.Republished == 2 && s.Persisted == 2 && s.Messages == 2
	})
	s.fails("open")
	wantKind(t, r.DeleteStream(ctx, "s"), broker.Internal)
	s.on("delete", nil)
	s.on("open", nil)
	must(t, r.DeleteStream(ctx, "s"))

	r.has(persist)
	s.fails("count")
	wantKind(t, justErr(r.CountStreamMessages(ctx, "s")), broker.Internal)
	wantKind(t, r.ReplayStream(ctx, broker.StreamReplay{StreamName: "s", ReplayTopic: "again", Limit: -1}), broker.Internal)
}

// TestStateOutlivesDelete that fails, as do the numbers.
func TestStateOutlivesDelete(t *testing.T) {
	t.Parallel()
	disk := open(t, t.TempDir())
	t.Cleanup(func() { must(t, disk.Close(context.Background())) })
	s := &faulty{Store: disk}
	r := start(t, s, streams.DefaultConfig())
	r.has(to("out"), asking(counting)) // keeps no messages, so the state is nowhere else
	r.next()
	s.fails("delete")
	wantKind(t, r.DeleteStream(t.Context(), "s"), broker.Internal)
	if got := r.next(); got != `{"n":2}` {
		t.Errorf("it goes on with %s", got)
	}
}

// TestCanceledChange waits for its turn no longer than its caller does, and is
// made to its end once it has begun.
func TestCanceledChange(t *testing.T) {
	t.Parallel()
	disk := open(t, t.TempDir())
	t.Cleanup(func() { must(t, disk.Close(context.Background())) })
	s := &faulty{Store: disk}
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
	closes(t, storing)
	cancel()
	e := wantKind(t, r.CreateStream(first, spec(named("t"))), broker.Unavailable)
	if !errors.Is(e, context.Canceled) {
		t.Errorf("the cause is %v", e.Err)
	}
	close(stored)
	must(t, <-created)
	if got := r.desk.subscribed(); got != "in" {
		t.Errorf("%q is subscribed to", got)
	}
}

// TestDeleteWhileUsed finds no stream that is deleted meanwhile, and settles what
// it has taken.
func TestDeleteWhileUsed(t *testing.T) {
	t.Parallel()
	r := start(t, nil, streams.DefaultConfig())
	var given receipts
	for range 30 {
		r.has(persist, to("out"))
		var busy sync.WaitGroup
		busy.Go(func() {
			for range 200 {
				r.desk.give(messaging.Message{Topic: "in", QoS: 1}, &given)
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

// TestRefusedSource shows in the record of an active stream that the broker does
// not let its source be subscribed to.
func TestRefusedSource(t *testing.T) {
	t.Parallel()
	r := start(t, nil, streams.DefaultConfig())
	r.has(named("free"))
	r.has(named("barred"), from("forbidden/#"))
	r.has(named("idle"), from("forbidden/#"), inactive)
	for name, want := range map[string]bool{"free": false, "barred": true, "idle": false} {
		s, err := r.GetStream(t.Context(), name)
		must(t, err)
		if got := s.Error != ""; got != want {
			t.Errorf("%s: error %q", name, s.Error)
		}
	}
}

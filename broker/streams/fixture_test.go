package streams_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"path/filepath"
	"testing"
	"time"

	"signalbox/broker"
	"signalbox/broker/storage"
	"signalbox/broker/streams"
	"signalbox/broker/streams/store"
	"signalbox/scripts/suite"
)

// must fails the test at the first error.
func must(tb testing.TB, errs ...error) {
	tb.Helper()
	for _, err := range errs {
		if err != nil {
			tb.Fatal(err)
		}
	}
}

// wantKind fails the test unless an error is of a kind.
func wantKind(tb testing.TB, err error, want broker.Kind) *broker.Error {
	tb.Helper()
	e, ok := errors.AsType[*broker.Error](err)
	if !ok || e.Kind != want {
		tb.Fatalf("got error %#v, want one of kind %d", err, want)
	}
	return e
}

// await waits until holds returns nil.
func await(tb testing.TB, holds func() error) {
	tb.Helper()
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	limit := time.NewTimer(suite.HangLimit)
	defer limit.Stop()
	for {
		err := holds()
		if err == nil {
			return
		}
		select {
		case <-tick.C:
		case <-limit.C:
			tb.Fatal("still not so after 30 seconds: ", err)
		}
	}
}

// wantClosed fails the test if a channel is not closed in time.
func wantClosed(tb testing.TB, c <-chan struct{}) {
	tb.Helper()
	select {
	case <-c:
	case <-time.After(suite.HangLimit):
		tb.Fatal("it did not happen in 30 seconds")
	}
}

// open opens the store of a directory. The caller closes it.
func open(tb testing.TB, dir string) *store.Store {
	tb.Helper()
	s, err := store.Open(context.Background(), filepath.Join(dir, "streams.db"), store.Options{Durability: storage.Process})
	must(tb, err)
	return s
}

// fixture is the stream engine of one broker, on a real store.
type fixture struct {
	*streams.Engine
	tb     testing.TB
	host   *streams.Host
	store  streams.Store
	broker *fakeBroker
}

// start opens the streams of broker "b" and closes them at the end of the test.
// If the store is nil, it creates one.
func start(tb testing.TB, s streams.Store, c streams.Config) *fixture {
	tb.Helper()
	if s == nil {
		disk := open(tb, tb.TempDir())
		tb.Cleanup(func() { must(tb, disk.Close(context.Background())) })
		s = disk
	}
	r := &fixture{tb: tb, host: streams.NewHost(c, s, slog.New(slog.DiscardHandler)), store: s, broker: &fakeBroker{}}
	r.Engine = r.host.Open("b", r.broker)
	tb.Cleanup(r.stop)
	must(tb, r.Ready(context.Background()))
	return r
}

// stop closes the engine.
func (r *fixture) stop() {
	r.tb.Helper()
	must(r.tb, r.Close(context.Background()))
}

// restart closes the engine and opens another one on the same store.
func (r *fixture) restart() {
	r.tb.Helper()
	r.stop()
	r.Engine = r.host.Open("b", r.broker)
	must(r.tb, r.Ready(context.Background()))
}

// spec returns the spec of a stream "s" from "in", with changes.
func spec(change ...func(*broker.StreamSpec)) broker.StreamSpec {
	s := broker.StreamSpec{StreamName: "s", SourceTopic: new("in")}
	for _, c := range change {
		c(&s)
	}
	return s
}

func named(name string) func(*broker.StreamSpec) {
	return func(s *broker.StreamSpec) { s.StreamName = name }
}

func from(topic string) func(*broker.StreamSpec) {
	return func(s *broker.StreamSpec) { s.SourceTopic = &topic }
}

func to(topic string) func(*broker.StreamSpec) {
	return func(s *broker.StreamSpec) { s.TargetTopic = &topic }
}

func persist(s *broker.StreamSpec)  { s.Persist = new(true) }
func inactive(s *broker.StreamSpec) { s.Active = new(false) }

func withQuery(query string) func(*broker.StreamSpec) {
	return func(s *broker.StreamSpec) { s.Query = []byte(query) }
}

// counting is a query that counts messages.
const counting = `{"select":[{"target":"[n]","function":{"name":"count"}}]}`

// create creates a stream.
func (r *fixture) create(change ...func(*broker.StreamSpec)) {
	r.tb.Helper()
	must(r.tb, r.CreateStream(context.Background(), spec(change...)))
}

// modify modifies stream "s" without replace.
func (r *fixture) modify(change ...func(*broker.StreamSpec)) {
	r.tb.Helper()
	s := broker.StreamSpec{StreamName: "s"}
	for _, c := range change {
		c(&s)
	}
	must(r.tb, r.ModifyStream(context.Background(), s, false))
}

// stats returns the statistics of a stream.
func (r *fixture) stats(name string) broker.StreamStats {
	r.tb.Helper()
	s, err := r.GetStream(context.Background(), name)
	must(r.tb, err)
	return *s.Stats
}

// counts waits until the statistics of stream "s" meet a condition.
func (r *fixture) counts(what string, as func(broker.StreamStats) bool) {
	r.tb.Helper()
	await(r.tb, func() error {
		if s := r.stats("s"); !as(s) {
			return fmt.Errorf("%s: %+v", what, s)
		}
		return nil
	})
}

// stored returns the stored payloads of stream "s", in order, by a replay.
func (r *fixture) stored() []string {
	r.tb.Helper()
	r.broker.clearPublished()
	must(r.tb, r.ReplayStream(context.Background(), broker.StreamReplay{StreamName: "s", ReplayTopic: "kept", Limit: -1}))
	await(r.tb, func() error {
		if s, err := r.GetStream(context.Background(), "s"); err != nil || s.Replaying {
			return errors.Join(err, errors.New("it is being replayed"))
		}
		return nil
	})
	return r.broker.payloads("kept")
}

// numbers returns the numbers in [from, to) as texts.
func numbers(from, to int) (all []string) {
	for i := from; i < to; i++ {
		all = append(all, fmt.Sprint(i))
	}
	return all
}

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

// await waits until something holds, which tells why it does not yet.
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

// closes fails the test if nothing closes a channel.
func closes(tb testing.TB, c <-chan struct{}) {
	tb.Helper()
	select {
	case <-c:
	case <-time.After(suite.HangLimit):
		tb.Fatal("it did not happen in 30 seconds")
	}
}

// open opens the store of a directory. The caller shuts it.
func open(tb testing.TB, dir string) *store.Store {
	tb.Helper()
	s, err := store.Open(context.Background(), filepath.Join(dir, "streams.db"), store.Options{Durability: storage.Process})
	must(tb, err)
	return s
}

// rig is the streams of one broker, on a real store.
type rig struct {
	*streams.Engine
	tb    testing.TB
	host  *streams.Host
	store streams.Store
	desk  *desk
}

// start opens the streams of broker "b" and ends them with the test. A store
// that is nil is a new one.
func start(tb testing.TB, s streams.Store, c streams.Config) *rig {
	tb.Helper()
	if s == nil {
		disk := open(tb, tb.TempDir())
		tb.Cleanup(func() { must(tb, disk.Close(context.Background())) })
		s = disk
	}
	r := &rig{tb: tb, host: streams.NewHost(c, s, slog.New(slog.DiscardHandler)), store: s, desk: &desk{}}
	r.Engine = r.host.Open("b", r.desk)
	tb.Cleanup(r.stop)
	must(tb, r.Ready(context.Background()))
	return r
}

// stop closes the engine.
func (r *rig) stop() {
	r.tb.Helper()
	must(r.tb, r.Close(context.Background()))
}

// again closes the engine and opens another on the same store.
func (r *rig) again() {
	r.tb.Helper()
	r.stop()
	r.Engine = r.host.Open("b", r.desk)
	must(r.tb, r.Ready(context.Background()))
}

// spec is what a test wishes of a stream "s" from "in".
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

func asking(query string) func(*broker.StreamSpec) {
	return func(s *broker.StreamSpec) { s.Query = []byte(query) }
}

// counting is a query that counts messages.
const counting = `{"select":[{"target":"[n]","function":{"name":"count"}}]}`

// has makes a stream.
func (r *rig) has(change ...func(*broker.StreamSpec)) {
	r.tb.Helper()
	must(r.tb, r.CreateStream(context.Background(), spec(change...)))
}

// modify changes stream "s", merging.
func (r *rig) modify(change ...func(*broker.StreamSpec)) {
	r.tb.Helper()
	s := broker.StreamSpec{StreamName: "s"}
	for _, c := range change {
		c(&s)
	}
	must(r.tb, r.ModifyStream(context.Background(), s, false))
}

// stats gives the numbers of a stream.
func (r *rig) stats(name string) broker.StreamStats {
	r.tb.Helper()
	s, err := r.GetStream(context.Background(), name)
	must(r.tb, err)
	return *s.Stats
}

// counts waits until the numbers of stream "s" are as a function wants them.
func (r *rig) counts(what string, as func(broker.StreamStats) bool) {
	r.tb.Helper()
	await(r.tb, func() error {
		if s := r.stats("s"); !as(s) {
			return fmt.Errorf("%s: %+v", what, s)
		}
		return nil
	})
}

// kept gives the payloads that stream "s" keeps, in order, by replaying them.
func (r *rig) kept() []string {
	r.tb.Helper()
	r.desk.forget()
	must(r.tb, r.ReplayStream(context.Background(), broker.StreamReplay{StreamName: "s", ReplayTopic: "kept", Limit: -1}))
	await(r.tb, func() error {
		if s, err := r.GetStream(context.Background(), "s"); err != nil || s.Replaying {
			return errors.Join(err, errors.New("it is being replayed"))
		}
		return nil
	})
	return r.desk.payloads("kept")
}

// numbers gives the texts of the numbers from one up to and without another.
func numbers(from, to int) (all []string) {
	for i := from; i < to; i++ {
		all = append(all, fmt.Sprint(i))
	}
	return all
}

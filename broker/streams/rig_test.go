package streams_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"signalbox/broker"
	"signalbox/broker/file"
	"signalbox/broker/streams"
	"signalbox/broker/streams/store"
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
	limit := time.NewTimer(30 * time.Second)
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
	case <-time.After(30 * time.Second):
		tb.Fatal("it did not happen in 30 seconds")
	}
}

// open opens the store of a directory. The caller shuts it.
func open(tb testing.TB, dir string) *store.Store {
	tb.Helper()
	s, err := store.Open(context.Background(), filepath.Join(dir, "streams.db"), store.Options{Durability: file.Process})
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

// desk is a broker in memory, whose publishing can be had to fail and to wait.
// What is published reaches those subscribed to that topic, or to "#".
type desk struct {
	mu        sync.Mutex // guards what follows; not held while calling out
	subs      []*subscription
	made      int // subscriptions ever made
	published []streams.Message
	attempts  int // to publish
	answer    func(ctx context.Context, list []streams.Message) (done, refused int, err error)
	away      error
}

type subscription struct {
	filter string
	in     streams.Inlet
}

func (d *desk) Subscribe(filter string, in streams.Inlet) (cancel func()) {
	s := &subscription{filter, in}
	d.mu.Lock()
	defer d.mu.Unlock()
	d.subs = append(d.subs, s)
	d.made++
	return func() {
		d.mu.Lock()
		defer d.mu.Unlock()
		d.subs = slices.DeleteFunc(d.subs, func(o *subscription) bool { return o == s })
	}
}

func (d *desk) Publish(ctx context.Context, list []streams.Message) (done, refused int, err error) {
	d.mu.Lock()
	answer := d.answer
	d.attempts++
	d.mu.Unlock()
	done = len(list)
	if answer != nil {
		done, refused, err = answer(ctx, list)
	}
	d.mu.Lock()
	d.published = append(d.published, list[refused:done]...)
	d.mu.Unlock()
	for _, m := range list[refused:done] {
		d.send(m, nil)
	}
	return done, refused, err
}

func (*desk) Room(context.Context, string) {}

func (d *desk) Reached() error {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.away
}

// answers sets what becomes of what is published, nil for success.
func (d *desk) answers(f func(ctx context.Context, list []streams.Message) (done, refused int, err error)) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.answer = f
}

// errAway is a broker that cannot be reached.
var errAway = &broker.Error{Kind: broker.Unavailable, Msg: "the broker is not connected"}

// unreachable takes nothing.
func unreachable(context.Context, []streams.Message) (done, refused int, err error) {
	return 0, 0, errAway
}

// send gives a message to whoever subscribes to its topic.
func (d *desk) send(m streams.Message, settler streams.Settler) {
	d.mu.Lock()
	subs := slices.Clone(d.subs)
	d.mu.Unlock()
	for _, s := range subs {
		if s.filter == m.Topic || s.filter == "#" {
			s.in.Take(m, settler)
		}
	}
}

// give gives a message to whoever subscribes to its topic, each of whom is to
// settle it.
func (d *desk) give(m streams.Message, given *receipts) {
	d.mu.Lock()
	subs := slices.Clone(d.subs)
	d.mu.Unlock()
	for _, s := range subs {
		if s.filter == m.Topic || s.filter == "#" {
			s.in.Take(m, given.next())
		}
	}
}

// say sends payloads to "in", in order.
func (d *desk) say(qos byte, payloads ...string) {
	for i, p := range payloads {
		d.send(streams.Message{Topic: "in", Payload: []byte(p), QoS: qos, At: origin + int64(i)}, nil)
	}
}

// subscribed gives the filters that are subscribed to, in order.
func (d *desk) subscribed() string {
	d.mu.Lock()
	defer d.mu.Unlock()
	var all []string
	for _, s := range d.subs {
		all = append(all, s.filter)
	}
	slices.Sort(all)
	return strings.Join(all, " ")
}

func (d *desk) forget() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.published = nil
}

// messages gives what was published to a topic, in order.
func (d *desk) messages(topic string) (all []streams.Message) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, m := range d.published {
		if m.Topic == topic {
			all = append(all, m)
		}
	}
	return all
}

func (d *desk) payloads(topic string) (all []string) {
	for _, m := range d.messages(topic) {
		all = append(all, string(m.Payload))
	}
	return all
}

// subscriptions tells how many subscriptions were ever made.
func (d *desk) subscriptions() int {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.made
}

// tries tells how often somebody has tried to publish.
func (d *desk) tries() int {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.attempts
}

// comes waits until so many messages were published to a topic, and gives their
// payloads.
func (d *desk) comes(tb testing.TB, topic string, n int) []string {
	tb.Helper()
	var got []string
	await(tb, func() error {
		if got = d.payloads(topic); len(got) < n {
			return fmt.Errorf("%d of %d messages were published to %s", len(got), n, topic)
		}
		return nil
	})
	return got
}

// numbers gives the texts of the numbers from one up to and without another.
func numbers(from, to int) (all []string) {
	for i := from; i < to; i++ {
		all = append(all, fmt.Sprint(i))
	}
	return all
}

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

// next gives a Settler.
func (r *receipts) next() streams.Settler {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.calls == nil {
		r.calls = map[int][]error{}
	}
	r.given++
	return receipt{r, r.given - 1}
}

func (r receipt) Settled(err error) {
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

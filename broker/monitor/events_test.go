package monitor

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"signalbox/broker"
	"signalbox/broker/pages"
)

// observed is a broker whose state a test sets. It reports at every call, as a broker in this
// process does.
type observed struct {
	broker.Broker
	mu        sync.Mutex // guards what follows
	clients   int
	published int
	status    broker.Status
	denials   int
	asked     int
	panics    bool
}

// set changes the fields.
func (o *observed) set(change func()) {
	o.mu.Lock()
	defer o.mu.Unlock()
	change()
}

// wantAsked checks how many times the metrics were read.
func (o *observed) wantAsked(t *testing.T, n int) {
	t.Helper()
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.asked != n {
		t.Errorf("the metrics were read %d times, want %d", o.asked, n)
	}
}

func (o *observed) SysHistory(int64) []broker.SysTopics { return nil }

func (o *observed) SysUpdate(time.Time) (broker.SysTopics, bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.asked++; o.panics {
		panic("deliberate")
	}
	s := report(0, 0, -1, o.published, o.clients)
	s.Date, s.Reported = time.Now().UnixMilli(), time.Now()
	return s, true
}

func (o *observed) Status() broker.Status {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.status
}

func (o *observed) Close(context.Context) error { return nil }

func (o *observed) ListDenials(_ context.Context, _, count int) (broker.Page[broker.Denial], error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	var all []broker.Denial
	for n := o.denials; n > 0 && len(all) < count; n-- {
		all = append(all, broker.Denial{ClientID: fmt.Sprint("c", n), Number: int64(n)})
	}
	return broker.Page[broker.Denial]{Total: o.denials, Items: pages.Of(all)}, nil
}

// follow runs a test with the events of a broker, whose fields it may change between waits.
func follow(t *testing.T, test func(t *testing.T, e *Events, o *observed, pool *broker.Pool)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		o := &observed{clients: 3, status: broker.Status{Connected: true, Since: time.UnixMilli(7)}}
		pool := broker.NewPool(func(target broker.Target) (broker.Broker, error) {
			if target.Rev > 1 {
				return &observed{clients: 5, status: broker.Status{Connected: true}}, nil
			}
			return o, nil
		})
		_, err := pool.Get(broker.Target{ID: brokerID, Rev: 1})
		must(t, err)
		e := NewEvents(pool, slog.New(slog.DiscardHandler))
		test(t, e, o, pool)
		must(t, e.Close(t.Context()))
		if e.open != 0 || len(e.byCaller) != 0 || len(e.watches) != 0 {
			t.Errorf("after all streams: %d open, callers %v, %d observations", e.open, e.byCaller, len(e.watches))
		}
	})
}

func openStream(t *testing.T, e *Events, types ...string) *Stream {
	t.Helper()
	s, err := e.Open(brokerID, "caller", types)
	must(t, err)
	return s
}

// taken returns the pending events, once all goroutines wait.
func taken(s *Stream) (all []string) {
	synctest.Wait()
	for _, e := range s.Take() {
		all = append(all, e.Type+" "+string(e.Data))
	}
	return all
}

// load is an event of type metrics.
func load(at, clients int, rate string) string {
	return fmt.Sprintf(`metrics {"at":%d,"connected":%d,"subscriptions":null,"retained":null,"messagesIn":%s,"messagesOut":null,"bytesIn":null,"bytesOut":null,"dropped":null}`,
		946684800000+at, clients, rate)
}

const isConnected, isLost = `state {"connected":true,"since":7}`, `state {"connected":false,"since":8,"error":"refused"}`

// TestEvents follows metrics and state, second by second.
func TestEvents(t *testing.T) {
	t.Parallel()
	follow(t, func(t *testing.T, e *Events, o *observed, _ *broker.Pool) {
		s := openStream(t, e, "metrics", "state")
		defer s.Close()
		<-time.After(500 * time.Millisecond) // so that changes are between two observations
		second := func(change func(), want ...string) {
			t.Helper()
			o.set(change)
			<-time.After(time.Second)
			if diff := cmp.Diff(want, taken(s)); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		}
		if diff := cmp.Diff([]string{load(0, 3, "null"), isConnected}, taken(s)); diff != "" {
			t.Errorf("at once (-want +got):\n%s", diff)
		}
		second(func() { o.published = 25 }, load(1000, 3, "25"))
		<-time.After(3 * time.Second)
		second(func() { o.clients = 4 }, `skipped {"skipped":3}`, load(5000, 4, "0"))
		second(func() { o.status = broker.Status{Since: time.UnixMilli(8), Error: "refused"} }, isLost)

		late := openStream(t, e, "metrics", "state")
		if diff := cmp.Diff([]string{isLost}, taken(late)); diff != "" {
			t.Errorf("a second stream (-want +got):\n%s", diff)
		}
		late.Close()
		late.Close()
	})
}

// TestEventsOfDenials sends each denial once, and none from before.
func TestEventsOfDenials(t *testing.T) {
	t.Parallel()
	follow(t, func(t *testing.T, e *Events, o *observed, _ *broker.Pool) {
		o.set(func() { o.denials = 10 })
		s := openStream(t, e, Denials)
		defer s.Close()
		wait := func() string {
			<-time.After(time.Second)
			return strings.Join(taken(s), "\n")
		}
		if got := wait(); got != "" {
			t.Errorf("denials of before: %s", got)
		}
		o.set(func() { o.denials = 12 })
		if got := wait(); !strings.Contains(got, `"c12"`) || !strings.Contains(got, `"c11"`) || strings.Contains(got, `"c10"`) || !strings.Contains(got, `"more":false`) {
			t.Errorf("two denials: %s", got)
		}
		if got := wait(); got != "" {
			t.Errorf("no denials: %s", got)
		}
		o.set(func() { o.denials = 200 })
		if got := wait(); strings.Count(got, "clientid") != maxDenials || !strings.Contains(got, `"more":true`) {
			t.Errorf("many denials: %s", got)
		}
		o.wantAsked(t, 0)
	})
}

// TestEventsAreShared observes a broker once for many streams, and not at all without any.
func TestEventsAreShared(t *testing.T) {
	t.Parallel()
	follow(t, func(t *testing.T, e *Events, o *observed, _ *broker.Pool) {
		var all []*Stream
		for range 10 {
			all = append(all, openStream(t, e, "metrics"))
		}
		<-time.After(4500 * time.Millisecond)
		o.wantAsked(t, 5)
		for _, s := range all {
			if got := taken(s); len(got) != 2 || got[0] != `skipped {"skipped":4}` {
				t.Errorf("got %q", got)
			}
			s.Close()
		}
		<-time.After(10 * time.Second)
		o.wantAsked(t, 5)
	})
}

// TestEventsAreBounded bounds the streams of a caller and of all.
func TestEventsAreBounded(t *testing.T) {
	t.Parallel()
	follow(t, func(t *testing.T, e *Events, _ *observed, _ *broker.Pool) {
		var all []*Stream
		for i := range maxStreams {
			s, err := e.Open(brokerID, fmt.Sprint("caller ", i/maxCallerStreams), []string{"state"})
			must(t, err)
			all = append(all, s)
		}
		if _, err := e.Open(brokerID, "caller 0", nil); !errors.Is(err, ErrTooManyCallerStreams) {
			t.Errorf("one more of a caller: %v", err)
		}
		if _, err := e.Open(brokerID, "other", nil); !errors.Is(err, ErrTooManyStreams) {
			t.Errorf("one more of another caller: %v", err)
		}
		for _, s := range all {
			s.Close()
		}
		openStream(t, e).Close()
	})
}

// TestEventsEndWithTheBroker ends the streams of a deleted broker, and goes on with those of
// one whose connection was replaced.
func TestEventsEndWithTheBroker(t *testing.T) {
	t.Parallel()
	follow(t, func(t *testing.T, e *Events, _ *observed, pool *broker.Pool) {
		s := openStream(t, e, "metrics")
		defer s.Close()
		taken(s)
		_, err := pool.Get(broker.Target{ID: brokerID, Rev: 2})
		must(t, err)
		<-time.After(time.Second)
		if got := taken(s); len(got) != 1 || !strings.Contains(got[0], `"connected":5`) {
			t.Errorf("after the change: %q", got)
		}
		must(t, pool.Drop(t.Context(), brokerID))
		<-s.Ended()
	})
}

// TestEventsBeginWithWhatIsKnown begins no stream with what was observed for another one, and
// changed since.
func TestEventsBeginWithWhatIsKnown(t *testing.T) {
	t.Parallel()
	follow(t, func(t *testing.T, e *Events, o *observed, _ *broker.Pool) {
		first := openStream(t, e, "metrics", "state", Denials)
		other := openStream(t, e)
		defer other.Close()
		taken(first)
		first.Close()
		<-time.After(1500 * time.Millisecond)
		o.set(func() {
			o.status, o.denials = broker.Status{Since: time.UnixMilli(8), Error: "refused"}, 3
		})
		late := openStream(t, e, "metrics", "state", Denials)
		defer late.Close()
		if got := taken(late); len(got) != 0 {
			t.Errorf("at once: %q", got)
		}
		<-time.After(time.Second)
		if diff := cmp.Diff([]string{isLost}, taken(late)); diff != "" {
			t.Errorf("when it was observed (-want +got):\n%s", diff)
		}
	})
}

// TestPanicEndsTheStreams ends the streams of a broker whose observation panics; new ones
// observe it again.
func TestPanicEndsTheStreams(t *testing.T) {
	t.Parallel()
	follow(t, func(t *testing.T, e *Events, o *observed, _ *broker.Pool) {
		s := openStream(t, e, "metrics")
		taken(s)
		o.set(func() { o.panics = true })
		<-s.Ended()
		s.Close()
		o.set(func() { o.panics = false })
		again := openStream(t, e, "state")
		defer again.Close()
		if diff := cmp.Diff([]string{isConnected}, taken(again)); diff != "" {
			t.Errorf("a new stream (-want +got):\n%s", diff)
		}
	})
}

// TestCloseOfEventsIsBounded closes while a stream is open.
func TestCloseOfEventsIsBounded(t *testing.T) {
	t.Parallel()
	follow(t, func(t *testing.T, e *Events, _ *observed, _ *broker.Pool) {
		s := openStream(t, e, "state")
		defer s.Close()
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if err := e.Close(ctx); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("got %v, want %v", err, context.DeadlineExceeded)
		}
	})
}

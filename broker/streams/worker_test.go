package streams_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"signalbox/broker"
	"signalbox/broker/messaging"
	"signalbox/broker/streams"
)

// smallConfig has queues of ten messages.
func smallConfig() streams.Config {
	c := streams.DefaultConfig()
	c.QueueMessages = 10
	return c
}

// TestRepublish checks that messages are published unchanged to the target, in
// order, at the configured QoS.
func TestRepublish(t *testing.T) {
	t.Parallel()
	for qos := -1; qos <= 2; qos++ {
		t.Run(fmt.Sprint(qos), func(t *testing.T) {
			t.Parallel()
			r := start(t, nil, streams.DefaultConfig())
			r.create(to("out"), func(s *broker.StreamSpec) { s.TargetQoS = &qos })
			want := make([]messaging.Message, 0, 3000)
			for i := range 3000 {
				m := messaging.Message{Topic: "in", Payload: fmt.Append(nil, i), Properties: []byte{1, 1}, QoS: byte(i % 3), At: origin + int64(i), ExpiresAt: 2 * origin}
				r.broker.deliver(m, nil)
				m.Topic = "out"
				if qos >= 0 {
					m.QoS = byte(qos)
				}
				want = append(want, m)
			}
			r.broker.awaitPayloads(t, "out", len(want))
			if diff := cmp.Diff(want, r.broker.publishedTo("out")); diff != "" {
				t.Errorf("-want +got:\n%.2000s", diff)
			}
			r.counts("all are republished", func(s broker.StreamStats) bool {
				return s.Received == 3000 && s.Republished == 3000 && s.Dropped == 0 && s.Persisted == 0
			})
		})
	}
}

// TestChain passes messages through consecutive streams.
func TestChain(t *testing.T) {
	t.Parallel()
	r := start(t, nil, streams.DefaultConfig())
	for i := range 20 {
		r.create(named(fmt.Sprint(i)), from(fmt.Sprintf("t%d", i)), to(fmt.Sprintf("t%d", i+1)))
	}
	for _, p := range numbers(0, 1000) {
		r.broker.deliver(messaging.Message{Topic: "t0", Payload: []byte(p)}, nil)
	}
	if got := r.broker.awaitPayloads(t, "t20", 1000); !slices.Equal(got, numbers(0, 1000)) {
		t.Error("other messages came out than went in, or in another order")
	}
}

// TestUnreachable checks that messages of QoS 0 are dropped, and that others
// are published when the broker has recovered, in order and with later ones.
func TestUnreachable(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		disk := open(t, t.TempDir())
		defer func() { must(t, disk.Close(context.Background())) }()
		r := start(t, disk, streams.DefaultConfig())
		defer r.stop()
		r.create(to("out"))
		attempts, all := 0, make(chan struct{})
		r.broker.setOnPublish(func(_ context.Context, list []messaging.Message) (int, int, error) {
			switch attempts++; attempts {
			case 1:
				<-all // in the queue, so that they are tried together
				return len(list), 0, nil
			case 2:
				return 1, 0, errUnreachable
			}
			return 0, 0, errUnreachable
		})
		r.broker.deliver(messaging.Message{Topic: "in", Payload: []byte("first")}, nil)
		synctest.Wait()
		for i := range 100 {
			r.broker.deliver(messaging.Message{Topic: "in", Payload: fmt.Append(nil, i), QoS: byte(i % 2)}, nil)
		}
		close(all)
		<-time.After(time.Minute)
		if got := r.broker.publishAttempts(); got < 12 || got > 30 {
			t.Errorf("%d attempts in a minute", got)
		}
		r.broker.setOnPublish(nil)
		<-time.After(10 * time.Second)
		r.broker.deliver(messaging.Message{Topic: "in", Payload: []byte("last")}, nil)
		synctest.Wait()
		want := []string{"first", "0"}
		for i := 1; i < 100; i += 2 {
			want = append(want, fmt.Sprint(i))
		}
		want = append(want, "last")
		if got := r.broker.payloads("out"); !slices.Equal(got, want) {
			t.Errorf("got %v, want %v", got, want)
		}
		if s := r.stats("s"); s.Received != 102 || s.Republished != 53 || s.Dropped != 49 {
			t.Errorf("got %+v", s)
		}
	})
}

// TestRefused checks that messages count as dropped and are not retried if the
// broker refuses them, or if Publish fails for another reason than that it
// cannot be reached.
func TestRefused(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		answer  func(context.Context, []messaging.Message) (int, int, error)
		dropped int64
	}{
		"refused": {func(_ context.Context, list []messaging.Message) (int, int, error) { return len(list), len(list), nil }, 10},
		"failed":  {func(_ context.Context, list []messaging.Message) (int, int, error) { return 0, 0, errors.New("no") }, 10},
		"denied": {func(_ context.Context, list []messaging.Message) (int, int, error) {
			return 0, 0, &broker.Error{Kind: broker.Denied, Msg: "not allowed"}
		}, 10},
		"broken": {func(_ context.Context, list []messaging.Message) (int, int, error) { return 0, 0, nil }, 10},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := start(t, nil, streams.DefaultConfig())
			r.create(to("out"))
			r.broker.setOnPublish(test.answer)
			r.broker.deliverAll(1, numbers(0, 10)...)
			r.counts("all are dropped", func(s broker.StreamStats) bool {
				return s.Dropped == test.dropped && s.Republished == 0
			})
		})
	}
}

// TestFullQueue checks that the newest messages are dropped and their sources
// notified.
func TestFullQueue(t *testing.T) {
	t.Parallel()
	r := start(t, nil, smallConfig())
	entered, leave := r.broker.blockPublish()
	r.create(to("out"), persist)
	var given notifiers
	r.broker.deliver(messaging.Message{Topic: "in", Payload: []byte("0"), QoS: 1}, given.next())
	wantClosed(t, entered)
	for _, p := range numbers(1, 31) {
		r.broker.deliver(messaging.Message{Topic: "in", Payload: []byte(p), QoS: 1}, given.next())
	}
	if all, failed := given.committed(t); all != 10 || failed != 10 {
		t.Errorf("%d are reported, of which %d refused; want the 10 that are beyond the queue", all, failed)
	}
	leave()
	given.wants(t, 10)
	if got := r.broker.awaitPayloads(t, "out", 21); !slices.Equal(got, numbers(0, 21)) {
		t.Errorf("got %q", got)
	}
	if s := r.stats("s"); s.Received != 31 || s.Dropped != 10 || s.Republished != 21 || s.Persisted != 21 {
		t.Errorf("got %+v", s)
	}
}

// TestQueryVerdicts checks the statistics and the notifications of messages
// that do not match.
func TestQueryVerdicts(t *testing.T) {
	t.Parallel()
	r := start(t, nil, streams.DefaultConfig())
	r.create(to("out"), persist, withQuery(`{"select":[{"source":"[v]","target":"[w]","alias":"v"}],"where":[{"operator":">","left":"v","right":1}]}`))
	var given notifiers
	for _, p := range []string{`{"v":1}`, `{"v":2}`, `no`, `{}`, `{"v":3}`, ``} {
		r.broker.deliver(messaging.Message{Topic: "in", Payload: []byte(p), QoS: 1}, given.next())
	}
	given.wants(t, 0)
	want := []string{`{"w":2}`, `{"w":3}`}
	if got := r.broker.awaitPayloads(t, "out", 2); !slices.Equal(got, want) {
		t.Errorf("got %q", got)
	}
	if s := r.stats("s"); s.Filtered != 2 || s.Invalid != 2 || s.Republished != 2 || s.Persisted != 2 || s.Dropped != 0 || s.Received != 6 {
		t.Errorf("got %+v", s)
	}
	if got := r.stored(); !slices.Equal(got, want) {
		t.Errorf("kept %q", got)
	}
}

// TestWithoutProcess checks that a query is not applied without process.
func TestWithoutProcess(t *testing.T) {
	t.Parallel()
	r := start(t, nil, streams.DefaultConfig())
	r.create(to("out"), withQuery(counting), func(s *broker.StreamSpec) { s.Process = new(false) })
	r.broker.deliverAll(0, "no JSON")
	if got := r.broker.awaitPayloads(t, "out", 1); got[0] != "no JSON" {
		t.Errorf("got %q", got)
	}
}

// TestLongOutput checks that an output which is too long is invalid, and does
// not affect others.
func TestLongOutput(t *testing.T) {
	t.Parallel()
	r := start(t, nil, streams.DefaultConfig())
	var selects []string
	for i := range 50 {
		selects = append(selects, fmt.Sprintf(`{"source":"[v]","target":"[w%d]"}`, i))
	}
	r.create(to("out"), withQuery(`{"select":[`+strings.Join(selects, ",")+`]}`))
	long := `{"v":"` + strings.Repeat("x", 60_000) + `"}`
	r.broker.deliverAll(0, `{"v":1}`, long, `{"v":2}`)
	got := r.broker.awaitPayloads(t, "out", 2)
	if len(got) != 2 || !strings.HasPrefix(got[0], `{"w0":1,`) || !strings.HasPrefix(got[1], `{"w0":2,`) {
		t.Errorf("got %.1000q", got)
	}
	r.counts("one is invalid", func(s broker.StreamStats) bool { return s.Invalid == 1 && s.Republished == 2 })
}

// TestPersistAndRepublish checks that outputs are stored, with the source's
// topic, QoS and time, and published.
func TestPersistAndRepublish(t *testing.T) {
	t.Parallel()
	r := start(t, nil, streams.DefaultConfig())
	r.create(to("out"), persist, withQuery(counting), func(s *broker.StreamSpec) { s.TargetQoS = new(0) })
	for range 1000 {
		r.broker.deliverAll(2, `{}`)
	}
	want := make([]string, 0, 1000)
	for i := range 1000 {
		want = append(want, fmt.Sprintf(`{"n":%d}`, i+1))
	}
	if got := r.broker.awaitPayloads(t, "out", 1000); !slices.Equal(got, want) {
		t.Error("other messages were published than the query made")
	}
	r.counts("all are kept", func(s broker.StreamStats) bool { return s.Persisted == 1000 && s.Messages == 1000 && s.Bytes > 0 })
	r.modify(func(s *broker.StreamSpec) { s.TargetQoS = new(-1) })
	if got := r.stored(); !slices.Equal(got, want) {
		t.Error("other messages were kept than the query made")
	}
	if m := r.broker.publishedTo("kept")[0]; m.QoS != 2 || m.At != origin {
		t.Errorf("got %+v", m)
	}
}

// TestCommittedAfterStoringAndPublishing checks that sources are notified when
// their messages are stored and published, and not before.
func TestCommittedAfterStoringAndPublishing(t *testing.T) {
	t.Parallel()
	disk := open(t, t.TempDir())
	t.Cleanup(func() { must(t, disk.Close(context.Background())) })
	s := &faultyStore{Store: disk}
	r := start(t, s, streams.DefaultConfig())
	r.create(persist, to("out"))
	var given notifiers
	entered, leave := r.broker.blockPublish()
	r.broker.deliverTracked(messaging.Message{Topic: "in", QoS: 1}, &given)
	wantClosed(t, entered)
	r.counts("it is stored", func(s broker.StreamStats) bool { return s.Persisted == 1 })
	if n, _ := given.committed(t); n != 0 {
		t.Error("a message is reported as committed that is not published")
	}
	leave()
	given.wants(t, 0)

	storing, stored := make(chan struct{}), make(chan struct{})
	s.on("committed", func() error {
		close(storing)
		<-stored
		return nil
	})
	r.broker.deliverTracked(messaging.Message{Topic: "in", QoS: 1}, &given)
	wantClosed(t, storing)
	r.counts("it is published", func(s broker.StreamStats) bool { return s.Republished == 2 })
	if n, _ := given.committed(t); n != 1 {
		t.Error("a message is reported as committed that is not stored")
	}
	close(stored)
	given.wants(t, 0)
}

// TestNotStored checks that messages which cannot be stored are refused and
// count as dropped, although they were published.
func TestNotStored(t *testing.T) {
	t.Parallel()
	for _, op := range []string{"append", "commit"} {
		t.Run(op, func(t *testing.T) {
			t.Parallel()
			disk := open(t, t.TempDir())
			t.Cleanup(func() { must(t, disk.Close(context.Background())) })
			s := &faultyStore{Store: disk}
			r := start(t, s, streams.DefaultConfig())
			r.create(persist, to("out"))
			s.fails(op)
			var given notifiers
			for range 600 {
				r.broker.deliver(messaging.Message{Topic: "in", QoS: 1}, given.next())
			}
			given.wants(t, 600)
			if got := r.stats("s"); got.Dropped != 600 || got.Persisted != 0 || got.Republished != 600 {
				t.Errorf("got %+v", got)
			}
			s.on(op, nil)
			r.broker.deliver(messaging.Message{Topic: "in", QoS: 1}, given.next())
			given.wants(t, 600)
		})
	}
}

package brokertest

import (
	"fmt"
	"testing"
	"time"

	"github.com/eclipse/paho.golang/paho"

	"signalbox/broker"
)

func streamKeepCases() []testCase {
	return []testCase{
		{name: "a stream that persists counts what it keeps, others keep nothing", run: keepCount},
		{name: "a stream of everything keeps everything but what is below $", run: keepEverything},
		{name: "a message is acknowledged only when the stream that keeps it has it", needs: []Feature{StreamKeepsAcks}, run: keepBeforeAck},
		{name: "what is switched to persist keeps from then on, and what no more persists keeps what it has", run: keepSwitched},
		{name: "clearing without bounds deletes everything of that stream alone", run: keepClearAll},
		{name: "clearing a range deletes what came in it", run: keepClearRange},
		{name: "a range that ends before it begins is refused", run: keepClearBad},
		{name: "messages older than their time to live go, and not before", run: keepTTL},
		{name: "a time to live that is set later holds for what is kept", run: keepTTLLater},
	}
}

func keepCount(t *testing.T, s *fixture) {
	keeping := s.flow(t, broker.StreamSpec{Persist: new(true)})
	other := s.flow(t, broker.StreamSpec{SourceTopic: &keeping.topic})
	if got := keeping.count(t); got != 0 {
		t.Errorf("a new stream keeps %d messages", got)
	}
	for i := range 30 {
		keeping.send(t, &paho.Publish{QoS: byte(i % 3), Payload: []byte(fmt.Sprint(i))})
	}
	if s := keeping.awaitProcessed(t); s.Persisted != 30 || s.Messages != 30 || s.Bytes <= 0 || keeping.count(t) != 30 {
		t.Errorf("want 30 messages kept, not %d: %+v", keeping.count(t), s)
	}
	other.sent = 30
	if s := other.awaitProcessed(t); s.Persisted != 0 || s.Messages != 0 || s.Bytes != 0 || other.count(t) != 0 {
		t.Errorf("want no messages kept, not %d: %+v", other.count(t), s)
	}
}

// keepEverything relies on no other client publishing meanwhile.
func keepEverything(t *testing.T, s *fixture) {
	f := s.flow(t, broker.StreamSpec{SourceTopic: new("#"), TargetTopic: new(""), Persist: new(true)})
	topics := []string{f.name, "/", f.name + "/a/b/c", "/x"}
	for _, topic := range topics {
		f.mqtt5.publish(t, topic, "x")
	}
	d := s.device(t, allow(broker.PublishClientSend, "$any/#"))
	d.publish(t, "$any/x", "hidden", false)
	f.sent = int64(len(topics))
	f.awaitProcessed(t)
	f.publish(t, "last")
	f.awaitProcessed(t)
	if got := f.count(t); got != f.sent {
		t.Errorf("%d messages are kept, want %d", got, f.sent)
	}
}

// keepBeforeAck checks after each acknowledgement how many messages are stored.
func keepBeforeAck(t *testing.T, s *fixture) {
	f := s.flow(t, broker.StreamSpec{Persist: new(true), TargetTopic: new("")})
	for i := range int64(200) {
		f.send(t, &paho.Publish{QoS: byte(1 + i%2), Payload: []byte("x")})
		if got := f.record(t).Stats.Persisted; got != i+1 {
			t.Fatalf("message %d is acknowledged when %d are stored", i+1, got)
		}
	}
}

func keepSwitched(t *testing.T, s *fixture) {
	f := s.flow(t, broker.StreamSpec{})
	f.publish(t, "1")
	f.wants(t, "1")
	f.modify(t, broker.StreamSpec{Persist: new(true)})
	f.publish(t, "2", "3")
	f.wants(t, "2", "3")
	WaitFor(t, "two messages are kept", func() bool { return f.record(t).Stats.Persisted == 2 })
	f.modify(t, broker.StreamSpec{Persist: new(false)})
	f.publish(t, "4")
	f.wants(t, "4")
	if got := f.count(t); got != 2 {
		t.Errorf("%d messages are kept, want 2", got)
	}
	f.modify(t, broker.StreamSpec{Persist: new(true)})
	f.replayToEnd(t, broker.StreamReplay{Limit: -1})
	f.replays(t, "2", "3")
}

func keepClearAll(t *testing.T, s *fixture) {
	f := s.flow(t, broker.StreamSpec{Persist: new(true)})
	other := s.flow(t, broker.StreamSpec{SourceTopic: &f.topic, Persist: new(true)})
	f.publish(t, "1", "2", "3")
	f.awaitProcessed(t)
	other.sent = f.sent
	other.awaitProcessed(t)
	must(t, s.Broker.ClearStreamMessages(t.Context(), f.name, nil, nil))
	if got := f.count(t); got != 0 {
		t.Errorf("%d messages are kept after all were deleted", got)
	}
	if got := other.count(t); got != 3 {
		t.Errorf("another stream keeps %d messages, want 3", got)
	}
	f.replayToEnd(t, broker.StreamReplay{Limit: -1})
	f.replays(t)
	f.publish(t, "4")
	f.awaitProcessed(t)
	if got := f.count(t); got != 1 {
		t.Errorf("%d messages are kept after one more came", got)
	}
	must(t, s.Broker.ClearStreamMessages(t.Context(), f.name, nil, nil))
	must(t, s.Broker.ClearStreamMessages(t.Context(), f.name, nil, nil))
}

// afterPause returns a condition that is true after a few milliseconds.
func afterPause() func() bool { return afterDuration(3 * time.Millisecond) }

// afterDuration returns a condition that is true after d.
func afterDuration(d time.Duration) func() bool {
	begin := time.Now()
	return func() bool { return time.Since(begin) > d }
}

// spaced publishes messages and returns, for each, a time between its arrival and that of the one
// before.
func (f *flow) spaced(t *testing.T, payloads ...string) (before []float64) {
	t.Helper()
	for _, p := range payloads {
		WaitFor(t, "the clock goes on", afterPause())
		before = append(before, seconds(time.Now()))
		WaitFor(t, "the clock goes on", afterPause())
		f.publish(t, p)
		f.awaitProcessed(t)
	}
	return before
}

func keepClearRange(t *testing.T, s *fixture) {
	f := s.flow(t, broker.StreamSpec{Persist: new(true)})
	before := f.spaced(t, "1", "2", "3", "4", "5", "6")
	clearing := func(gte, lte *float64, left ...string) {
		t.Helper()
		must(t, s.Broker.ClearStreamMessages(t.Context(), f.name, gte, lte))
		if got := f.count(t); got != int64(len(left)) {
			t.Errorf("%d messages are kept, want %d", got, len(left))
		}
		f.replayToEnd(t, broker.StreamReplay{Limit: -1})
		f.replays(t, left...)
	}
	clearing(&before[2], &before[3], "1", "2", "4", "5", "6")
	clearing(&before[2], &before[3], "1", "2", "4", "5", "6")
	clearing(nil, &before[1], "2", "4", "5", "6")
	clearing(&before[5], nil, "2", "4", "5")
	clearing(new(0.0), new(1.0), "2", "4", "5")
	clearing(new(before[5]+1000), nil, "2", "4", "5")
	clearing(new(0.0), nil)
}

func keepClearBad(t *testing.T, s *fixture) {
	f := s.flow(t, broker.StreamSpec{Persist: new(true)})
	f.publish(t, "1")
	f.awaitProcessed(t)
	s.refusesFields(t, s.Broker.ClearStreamMessages(t.Context(), f.name, new(2.0), new(1.0)), "lte")
	if got := f.count(t); got != 1 {
		t.Errorf("%d messages are kept, want 1", got)
	}
}

// keepTTL publishes to two streams, and checks that the messages of one expire.
func keepTTL(t *testing.T, s *fixture) {
	f := s.flow(t, broker.StreamSpec{Persist: new(true), TTL: new(int64(1))})
	forever := s.flow(t, broker.StreamSpec{SourceTopic: &f.topic, Persist: new(true)})
	began := time.Now()
	f.publish(t, "1", "2")
	f.awaitProcessed(t)
	WaitFor(t, "the messages are too old", func() bool { return f.count(t) == 0 })
	if age := time.Since(began); age < time.Second {
		t.Errorf("messages are gone after %v, and were to stay for 1s", age)
	}
	WaitFor(t, "the messages are counted as expired, and not as kept", func() bool {
		s := f.record(t).Stats
		return s.Expired == 2 && s.Messages == 0 && s.Bytes == 0
	})
	f.replayToEnd(t, broker.StreamReplay{Limit: -1})
	f.replays(t)
	if got := forever.count(t); got != 2 {
		t.Errorf("a stream that keeps for ever keeps %d messages, want 2", got)
	}
}

func keepTTLLater(t *testing.T, s *fixture) {
	f := s.flow(t, broker.StreamSpec{Persist: new(true)})
	f.publish(t, "1")
	f.awaitProcessed(t)
	f.modify(t, broker.StreamSpec{TTL: new(int64(1))})
	WaitFor(t, "the message is too old", func() bool { return f.count(t) == 0 })
}

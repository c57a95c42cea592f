package streams_test

import (
	"context"
	"fmt"
	"slices"
	"testing"

	"signalbox/broker"
	"signalbox/broker/messaging"
	"signalbox/broker/streams"
	"signalbox/broker/streams/store"
)

// manyStreams returns a store with n streams of broker "b", each of another
// topic.
func manyStreams(tb testing.TB, n int) *store.Store {
	tb.Helper()
	disk := open(tb, tb.TempDir())
	tb.Cleanup(func() { must(tb, disk.Close(context.Background())) })
	for i := range n {
		s := broker.Stream{StreamName: fmt.Sprint("s", i), SourceTopic: fmt.Sprint("in/", i), TargetTopic: "out", TargetQoS: -1, Active: true, Persist: true}
		must(tb, errorOf(disk.Put(context.Background(), "b", streams.Definition{Stream: s})))
	}
	return disk
}

// everyOne sends a message to each of the streams.
func (d *fakeBroker) everyOne() {
	d.mu.Lock()
	subs := slices.Clone(d.subs)
	d.mu.Unlock()
	for _, s := range subs {
		s.in.Take(messaging.Message{Topic: s.filter}, nil)
	}
}

// TestManyStreams processes messages in many streams, and closes them together.
func TestManyStreams(t *testing.T) {
	t.Parallel()
	const n = 500
	disk := manyStreams(t, n)
	r := start(t, disk, streams.DefaultConfig())
	r.broker.everyOne()
	if all, total := names(t, r, broker.ListOptions[broker.Stream]{Count: -1}); total != n || len(all) != n || !slices.IsSorted(all) {
		t.Errorf("got %d streams", total)
	}
	r.create() // checks for loops among all streams
	r.stop()
	if got := len(r.broker.payloads("out")); got != n {
		t.Errorf("%d messages were published", got)
	}
	r.restart()
	for _, s := range r.Streams() {
		if s.StreamName != "s" && s.Stats.Messages != 1 {
			t.Fatalf("%s keeps %d messages", s.StreamName, s.Stats.Messages)
		}
	}
}

// BenchmarkManyStreams starts 10,000 streams, sends a message to each, lists
// them and closes them.
func BenchmarkManyStreams(b *testing.B) {
	const n = 10_000
	r := start(b, manyStreams(b, n), streams.DefaultConfig())
	for b.Loop() {
		r.restart()
		r.broker.everyOne()
		if got := len(r.Streams()); got != n {
			b.Fatalf("%d streams", got)
		}
	}
}

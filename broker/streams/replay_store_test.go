package streams_test

import (
	"context"
	"iter"
	"math"
	"path/filepath"
	"reflect"
	"slices"
	"strconv"
	"testing"
	"time"

	"signalbox/broker"
	"signalbox/broker/messaging"
	"signalbox/broker/streams"
	"signalbox/broker/streams/store"
	"signalbox/scripts/suite"
)

// recorder is a broker that records what is published to it.
type recorder struct {
	messaging.Broker
	messages []messaging.Message
}

func (d *recorder) Publish(_ context.Context, messages []messaging.Message) (done, refused int, err error) {
	d.messages = append(d.messages, messages...)
	return len(messages), 0, nil
}

// WaitForCapacity returns at once.
func (*recorder) WaitForCapacity(context.Context, string) {}

func (*recorder) Retained(context.Context, string) iter.Seq2[messaging.Message, error] {
	return func(func(messaging.Message, error) bool) {}
}

func (*recorder) Refused(string) bool { return false }

// origin is when the first message of a new log arrived, in epoch milliseconds.
const origin = 1_700_000_000_000

// newLog opens a log on disk with n messages, one millisecond apart, whose
// payloads are their numbers.
func newLog(tb testing.TB, n int) streams.Log {
	tb.Helper()
	ctx := context.Background() // the context of a test ends before its cleanup
	s, err := store.Open(ctx, filepath.Join(tb.TempDir(), "streams.db"), store.Options{})
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() {
		if err := s.Close(ctx); err != nil {
			tb.Error(err)
		}
	})
	id, err := s.Put(ctx, "b", streams.Definition{Stream: broker.Stream{StreamName: "s"}})
	if err != nil {
		tb.Fatal(err)
	}
	kept, err := s.Open(ctx, id)
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() {
		if err := kept.Close(ctx); err != nil {
			tb.Error(err)
		}
	})
	appendAll(tb, kept, n)
	return kept
}

// appendAll appends messages in batches and waits until they are stored.
func appendAll(tb testing.TB, kept streams.Log, n int) {
	tb.Helper()
	batches := slices.Collect(slices.Chunk(numbered(n), 100))
	committed := make(chan error, len(batches))
	for _, batch := range batches {
		if err := kept.Append(context.Background(), batch, nil, func(err error) { committed <- err }); err != nil {
			tb.Fatal(err)
		}
	}
	for range batches {
		select {
		case err := <-committed:
			if err != nil {
				tb.Fatal(err)
			}
		case <-time.After(suite.HangLimit):
			tb.Fatal("messages were not stored in 30 seconds")
		}
	}
}

func numbered(n int) []messaging.Message {
	all := make([]messaging.Message, 0, n)
	for i := range n {
		all = append(all, messaging.Message{
			Topic: "source", Payload: strconv.AppendInt(nil, int64(i), 10), Properties: []byte{1, 0}, QoS: byte(i % 3), At: origin + int64(i),
		})
	}
	return all
}

// replayed returns the published messages with the numbers in [from, to).
func replayed(from, to int, reverse bool) []messaging.Message {
	all := numbered(to + 1)[from:]
	for i := range all {
		all[i].Topic = "again"
	}
	if reverse {
		slices.Reverse(all)
	}
	return all
}

// TestReplayFromDisk replays many pages of messages.
func TestReplayFromDisk(t *testing.T) {
	t.Parallel()
	const n = 20_000
	kept := newLog(t, n)
	at := func(i int) *float64 { return new(float64(origin+i) / 1000) }
	for name, test := range map[string]struct {
		r        broker.StreamReplay
		from, to int
	}{
		"all":                            {broker.StreamReplay{Limit: -1}, 0, n - 1},
		"all, newest first":              {broker.StreamReplay{Limit: -1, Reverse: true}, 0, n - 1},
		"a range":                        {broker.StreamReplay{Limit: -1, GTE: at(123), LTE: at(15_678)}, 123, 15_678},
		"a range, newest first":          {broker.StreamReplay{Limit: -1, GTE: at(123), LTE: at(15_678), Reverse: true}, 123, 15_678},
		"the first":                      {broker.StreamReplay{Limit: 3000, GTE: at(50)}, 50, 3049},
		"the last":                       {broker.StreamReplay{Limit: 3000, Reverse: true}, n - 3000, n - 1},
		"at ten thousand times the pace": {broker.StreamReplay{Limit: -1, Speed: 10_000, LTE: at(9999)}, 0, 9999},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			test.r.StreamName, test.r.ReplayTopic = "s", "again"
			d := streams.Definition{Stream: broker.Stream{StreamName: "s", TargetQoS: -1}}
			var to recorder
			progress, err := streams.Replay(t.Context(), kept, &to, d, test.r, n)
			if err != nil {
				t.Fatal(err)
			}
			want := replayed(test.from, test.to, test.r.Reverse)
			if progress.Sent != int64(len(want)) {
				t.Errorf("sent %d, want %d", progress.Sent, len(want))
			}
			if !reflect.DeepEqual(want, to.messages) {
				t.Error("the messages are others than those kept, or in another order")
			}
		})
	}
}

// BenchmarkReplay replays 100,000 messages as fast as possible.
func BenchmarkReplay(b *testing.B) {
	const n = 100_000
	kept := newLog(b, n)
	d := streams.Definition{Stream: broker.Stream{StreamName: "s", TargetQoS: -1}}
	for b.Loop() {
		to := recorder{messages: make([]messaging.Message, 0, n)}
		p, err := streams.Replay(b.Context(), kept, &to, d, broker.StreamReplay{ReplayTopic: "again", Limit: -1}, math.MaxInt64)
		if err != nil || p.Sent != n {
			b.Fatalf("sent %d, error %v", p.Sent, err)
		}
	}
	b.ReportMetric(float64(n)*float64(b.N)/b.Elapsed().Seconds(), "messages/s")
}

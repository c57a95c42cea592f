package streams

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"signalbox/broker"
	"signalbox/broker/messaging"
)

// memoryLog is a Log in memory.
type memoryLog struct {
	Log
	mu       sync.Mutex // guards messages and reads
	messages []messaging.Message
	reads    int   // of single messages
	err      error // returned by Read
}

func (l *memoryLog) keep(messages ...messaging.Message) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.messages = append(l.messages, messages...)
}

func (l *memoryLog) Read(ctx context.Context, r Range, reverse bool, yield func(messaging.Message) bool) error {
	for i := 0; ; i++ {
		m, ok := l.at(i, reverse)
		if !ok {
			return l.err
		}
		if m.At >= r.From && m.At <= r.To && !yield(m) {
			return ctx.Err()
		}
	}
}

func (l *memoryLog) at(i int, reverse bool) (messaging.Message, bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if i >= len(l.messages) {
		return messaging.Message{}, false
	}
	l.reads++
	if reverse {
		i = len(l.messages) - 1 - i
	}
	return l.messages[i], true
}

// fakeTarget is a broker that takes batches, unless it has other results.
type fakeTarget struct {
	messaging.Broker
	batches chan []messaging.Message
	results chan result // of the next batches; without one all messages are taken
	asked   []string    // the topics of WaitForCapacity, to be read at the end
}

// result is the result of Publish.
type result struct {
	done, refused int
	err           error
}

func newTarget() *fakeTarget {
	return &fakeTarget{batches: make(chan []messaging.Message, 1000), results: make(chan result, 100)}
}

// WaitForCapacity returns at once. Only the goroutine of the replay calls it.
func (b *fakeTarget) WaitForCapacity(_ context.Context, topic string) {
	b.asked = append(b.asked, topic)
}

func (b *fakeTarget) Publish(ctx context.Context, messages []messaging.Message) (done, refused int, err error) {
	if err := ctx.Err(); err != nil {
		return 0, 0, err
	}
	b.batches <- slices.Clone(messages)
	select {
	case a := <-b.results:
		return a.done, a.refused, a.err
	default:
		return len(messages), 0, nil
	}
}

// wantBatch compares the payloads of the next batch.
func (b *fakeTarget) wantBatch(t *testing.T, want string) {
	t.Helper()
	if got := payloads(receive(t, b.batches)); got != want {
		t.Fatalf("published %q, want %q", got, want)
	}
}

// wantNone fails the test if a batch was published.
func (b *fakeTarget) wantNone(t *testing.T) {
	t.Helper()
	select {
	case batch := <-b.batches:
		t.Fatalf("published %q, want nothing", payloads(batch))
	default:
	}
}

func payloads(batch []messaging.Message) string {
	var parts []string
	for _, m := range batch {
		parts = append(parts, string(m.Payload))
	}
	return strings.Join(parts, " ")
}

// messagesAt returns messages that arrived at the given milliseconds after a
// time, which are their payloads.
func messagesAt(at ...int64) []messaging.Message {
	var all []messaging.Message
	for _, ms := range at {
		all = append(all, messaging.Message{Topic: "source", Payload: fmt.Append(nil, ms), At: ms})
	}
	return all
}

// replayTest is a replay with its clock, log and broker.
type replayTest struct {
	*replay
	clock  *drivenClock
	kept   *memoryLog
	target *fakeTarget
	logged *bytes.Buffer // to be read at the end
	cancel context.CancelFunc
	ended  chan error
}

var persistingStream = Definition{Stream: broker.Stream{StreamName: "s", SourceTopic: "source", TargetQoS: -1, Active: true, Persist: true}}

// newReplayTest returns a replay of messages, which begin starts.
func newReplayTest(r broker.StreamReplay, messages []messaging.Message) *replayTest {
	r.ReplayTopic = "again"
	w := &replayTest{clock: newDrivenClock(), kept: &memoryLog{messages: messages}, target: newTarget(), logged: new(bytes.Buffer), ended: make(chan error, 1)}
	w.replay = newReplay(persistingStream, r, int64(len(messages)), w.clock)
	w.log = slog.New(slog.NewTextHandler(w.logged, nil))
	return w
}

// begin runs the replay, until the end of the test at the latest.
func (w *replayTest) begin(t *testing.T) *replayTest {
	ctx, cancel := context.WithCancel(t.Context())
	w.cancel = cancel
	var running sync.WaitGroup
	running.Go(func() { w.ended <- w.run(ctx, w.kept, w.target) })
	t.Cleanup(func() {
		cancel()
		running.Wait()
	})
	return w
}

// wantSent waits for the end and compares the number of messages sent.
func (w *replayTest) wantSent(t *testing.T, want int64) {
	t.Helper()
	if err := receive(t, w.ended); err != nil {
		t.Fatal(err)
	}
	if got := w.progress().Sent; got != want {
		t.Errorf("sent %d, want %d", got, want)
	}
}

func TestReplayMessages(t *testing.T) {
	t.Parallel()
	kept := []messaging.Message{
		{Topic: "source", Payload: []byte("p"), Properties: []byte{1, 0}, QoS: 2, At: 5, ExpiresAt: 9},
		{Topic: "source/x", Payload: nil, QoS: 0, At: 5},
	}
	for qos, want := range map[int][]byte{-1: {2, 0}, 0: {0, 0}, 1: {1, 1}, 2: {2, 2}} {
		w := newReplayTest(broker.StreamReplay{Limit: -1, Speed: 0}, slices.Clone(kept))
		w.stream.TargetQoS = qos
		w.begin(t).wantSent(t, 2)
		wanted := []messaging.Message{
			{Topic: "again", Payload: []byte("p"), Properties: []byte{1, 0}, QoS: want[0], At: 5},
			{Topic: "again", QoS: want[1], At: 5},
		}
		if diff := cmp.Diff(wanted, receive(t, w.target.batches)); diff != "" {
			t.Errorf("at target QoS %d (-want +got):\n%s", qos, diff)
		}
		if diff := cmp.Diff([]messaging.Message{{Topic: "source", Payload: []byte("p"), Properties: []byte{1, 0}, QoS: 2, At: 5, ExpiresAt: 9}, {Topic: "source/x", At: 5}}, w.kept.messages); diff != "" {
			t.Errorf("the stored messages have changed (-want +got):\n%s", diff)
		}
	}
}

func TestReplaySelection(t *testing.T) {
	t.Parallel()
	seconds := func(f float64) *float64 { return &f }
	for name, test := range map[string]struct {
		r    broker.StreamReplay
		want string
	}{
		"all, oldest first":              {broker.StreamReplay{Limit: -1}, "1000 2000 2500 3000 3000"},
		"newest first":                   {broker.StreamReplay{Limit: -1, Reverse: true}, "3000 3000 2500 2000 1000"},
		"the first two":                  {broker.StreamReplay{Limit: 2}, "1000 2000"},
		"the last two":                   {broker.StreamReplay{Limit: 2, Reverse: true}, "3000 3000"},
		"none":                           {broker.StreamReplay{Limit: 0}, ""},
		"from a time on":                 {broker.StreamReplay{Limit: -1, GTE: seconds(2)}, "2000 2500 3000 3000"},
		"up to a time":                   {broker.StreamReplay{Limit: -1, LTE: seconds(2.5)}, "1000 2000 2500"},
		"up to a time between":           {broker.StreamReplay{Limit: -1, LTE: seconds(2.4999)}, "1000 2000"},
		"between two times":              {broker.StreamReplay{Limit: -1, GTE: seconds(1.001), LTE: seconds(2.999)}, "2000 2500"},
		"between two times, newest two":  {broker.StreamReplay{Limit: 2, GTE: seconds(1), LTE: seconds(2.5), Reverse: true}, "2500 2000"},
		"between times without messages": {broker.StreamReplay{Limit: -1, GTE: seconds(1.5), LTE: seconds(1.6)}, ""},
		"between times within a moment":  {broker.StreamReplay{Limit: -1, GTE: seconds(2.0001), LTE: seconds(2.0002)}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newReplayTest(test.r, messagesAt(1000, 2000, 2500, 3000, 3000)).begin(t)
			w.wantSent(t, int64(len(strings.Fields(test.want))))
			if test.want != "" {
				w.target.wantBatch(t, test.want)
			}
			w.target.wantNone(t)
		})
	}
}

// TestReplayOfNothing replays a stream without messages, although some were
// counted.
func TestReplayOfNothing(t *testing.T) {
	t.Parallel()
	for _, reverse := range []bool{false, true} {
		w := newReplayTest(broker.StreamReplay{Limit: -1, Reverse: reverse}, nil)
		w.count = 5
		w.begin(t).wantSent(t, 0)
		w.target.wantNone(t)
	}
}

// growingLog is a Log that gets one more message whenever it is read.
type growingLog struct{ *memoryLog }

func (l growingLog) Read(ctx context.Context, r Range, reverse bool, yield func(messaging.Message) bool) error {
	defer l.keep(messagesAt(1)...)
	return l.memoryLog.Read(ctx, r, reverse, yield)
}

// TestReplayOfTheFuture does not send the first message that is ever stored.
func TestReplayOfTheFuture(t *testing.T) {
	t.Parallel()
	w := newReplayTest(broker.StreamReplay{Limit: -1}, nil)
	w.count = 1
	if err := w.run(t.Context(), growingLog{w.kept}, w.target); err != nil {
		t.Error(err)
	}
	w.target.wantNone(t)
}

// TestReplayIsClosed stores more messages during a replay, after the clock was
// set back; they are not replayed.
func TestReplayIsClosed(t *testing.T) {
	t.Parallel()
	kept := messagesAt(1000, 2000)
	w := newReplayTest(broker.StreamReplay{Limit: -1, Speed: 1}, kept)
	w.count = 10 // as if it had been counted later
	w.begin(t)
	w.clock.wantWait(t, time.Second)
	w.kept.keep(messagesAt(2001, 2002)...)
	w.clock.advance(time.Second)
	w.wantSent(t, 2)
}

// TestReplayIsCounted does not send more messages than were stored at the
// start, even if their times are equal.
func TestReplayIsCounted(t *testing.T) {
	t.Parallel()
	w := newReplayTest(broker.StreamReplay{Limit: -1, Speed: 1}, messagesAt(1000, 2000)).begin(t)
	w.clock.wantWait(t, time.Second)
	w.kept.keep(messagesAt(2000)...)
	w.clock.advance(time.Second)
	w.wantSent(t, 2)
}

func TestReplayBatches(t *testing.T) {
	t.Parallel()
	t.Run("of 256 messages at most", func(t *testing.T) {
		t.Parallel()
		w := newReplayTest(broker.StreamReplay{Limit: -1}, messagesAt(make([]int64, 600)...)).begin(t)
		for _, want := range []int{256, 256, 88} {
			if got := len(receive(t, w.target.batches)); got != want {
				t.Errorf("a batch has %d messages, want %d", got, want)
			}
		}
		w.wantSent(t, 600)
		if diff := cmp.Diff([]string{"again", "again", "again"}, w.target.asked); diff != "" {
			t.Errorf("topics of WaitForCapacity (-want +got):\n%s", diff)
		}
	})
	t.Run("of a mebibyte at most, but for a single message", func(t *testing.T) {
		t.Parallel()
		kept := messagesAt(0, 0, 0, 0, 0, 0)
		for i, size := range []int{400_000, 600_000, 100_000, 2_000_000, 10, 10} {
			kept[i].Payload = make([]byte, size)
		}
		w := newReplayTest(broker.StreamReplay{Limit: -1}, kept).begin(t)
		for _, want := range []int{2, 1, 1, 2} {
			if got := len(receive(t, w.target.batches)); got != want {
				t.Errorf("a batch has %d messages, want %d", got, want)
			}
		}
		w.wantSent(t, 6)
	})
}

func TestReplayProgress(t *testing.T) {
	t.Parallel()
	clock := newDrivenClock()
	want := broker.StreamProgress{ReplayTopic: "again", Total: 3, StartedAt: clock.Now().UnixMilli(), Speed: 2, Reverse: true}
	for limit, total := range map[int64]int64{-1: 10, 3: 3, 0: 0, 11: 10} {
		p := newReplay(persistingStream, broker.StreamReplay{ReplayTopic: "again", Limit: limit, Speed: 2, Reverse: true}, 10, clock)
		want.Total = total
		if diff := cmp.Diff(want, p.progress()); diff != "" {
			t.Errorf("with limit %d (-want +got):\n%s", limit, diff)
		}
	}
}

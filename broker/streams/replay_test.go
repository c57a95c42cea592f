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

// memory is a Log of messages in order.
type memory struct {
	Log
	mu       sync.Mutex // guards messages and reads
	messages []messaging.Message
	reads    int   // of single messages
	err      error // what Read ends with
}

func (l *memory) keep(messages ...messaging.Message) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.messages = append(l.messages, messages...)
}

func (l *memory) Read(ctx context.Context, r Range, reverse bool, yield func(messaging.Message) bool) error {
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

func (l *memory) at(i int, reverse bool) (messaging.Message, bool) {
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

// target is a broker that takes batches, if it is not told otherwise.
type target struct {
	messaging.Broker
	batches chan []messaging.Message
	answers chan answer // to the next batches; without one all is taken
	asked   []string    // the topics that room was asked for, to be read at the end
}

// answer is what Publish gives.
type answer struct {
	done, refused int
	err           error
}

func newTarget() *target {
	return &target{batches: make(chan []messaging.Message, 1000), answers: make(chan answer, 100)}
}

// WaitForCapacity is always there. It is asked for by the goroutine of the replay only.
func (b *target) WaitForCapacity(_ context.Context, topic string) { b.asked = append(b.asked, topic) }

func (b *target) Publish(ctx context.Context, messages []messaging.Message) (done, refused int, err error) {
	if err := ctx.Err(); err != nil {
		return 0, 0, err
	}
	b.batches <- slices.Clone(messages)
	select {
	case a := <-b.answers:
		return a.done, a.refused, a.err
	default:
		return len(messages), 0, nil
	}
}

// takes holds against want the payloads of the next batch.
func (b *target) takes(t *testing.T, want string) {
	t.Helper()
	if got := payloads(receive(t, b.batches)); got != want {
		t.Fatalf("published %q, want %q", got, want)
	}
}

// none fails if a batch was published.
func (b *target) none(t *testing.T) {
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

// came makes messages that came at the given milliseconds after a time, which
// are their payloads.
func came(at ...int64) []messaging.Message {
	var all []messaging.Message
	for _, ms := range at {
		all = append(all, messaging.Message{Topic: "source", Payload: fmt.Append(nil, ms), At: ms})
	}
	return all
}

// trial is a replay at work.
type trial struct {
	*replay
	clock  *drivenClock
	kept   *memory
	target *target
	logged *bytes.Buffer // to be read at the end
	cancel context.CancelFunc
	ended  chan error
}

var keeper = Definition{Stream: broker.Stream{StreamName: "s", SourceTopic: "source", TargetQoS: -1, Active: true, Persist: true}}

// try makes a replay of messages. Begin runs it.
func try(r broker.StreamReplay, messages []messaging.Message) *trial {
	r.ReplayTopic = "again"
	w := &trial{clock: newDrivenClock(), kept: &memory{messages: messages}, target: newTarget(), logged: new(bytes.Buffer), ended: make(chan error, 1)}
	w.replay = newReplay(keeper, r, int64(len(messages)), w.clock)
	w.log = slog.New(slog.NewTextHandler(w.logged, nil))
	return w
}

// begin runs the replay until the end of the test at the latest.
func (w *trial) begin(t *testing.T) *trial {
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

// ends waits for the end and holds the messages sent against want.
func (w *trial) ends(t *testing.T, want int64) {
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
		w := try(broker.StreamReplay{Limit: -1, Speed: 0}, slices.Clone(kept))
		w.stream.TargetQoS = qos
		w.begin(t).ends(t, 2)
		wanted := []messaging.Message{
			{Topic: "again", Payload: []byte("p"), Properties: []byte{1, 0}, QoS: want[0], At: 5},
			{Topic: "again", QoS: want[1], At: 5},
		}
		if diff := cmp.Diff(wanted, receive(t, w.target.batches)); diff != "" {
			t.Errorf("at target QoS %d (-want +got):\n%s", qos, diff)
		}
		if diff := cmp.Diff([]messaging.Message{{Topic: "source", Payload: []byte("p"), Properties: []byte{1, 0}, QoS: 2, At: 5, ExpiresAt: 9}, {Topic: "source/x", At: 5}}, w.kept.messages); diff != "" {
			t.Errorf("what is kept has changed (-want +got):\n%s", diff)
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
			w := try(test.r, came(1000, 2000, 2500, 3000, 3000)).begin(t)
			w.ends(t, int64(len(strings.Fields(test.want))))
			if test.want != "" {
				w.target.takes(t, test.want)
			}
			w.target.none(t)
		})
	}
}

// TestReplayOfNothing is of a stream that keeps none, though some were counted.
func TestReplayOfNothing(t *testing.T) {
	t.Parallel()
	for _, reverse := range []bool{false, true} {
		w := try(broker.StreamReplay{Limit: -1, Reverse: reverse}, nil)
		w.count = 5
		w.begin(t).ends(t, 0)
		w.target.none(t)
	}
}

// growing is a Log that keeps one more message whenever it was read.
type growing struct{ *memory }

func (l growing) Read(ctx context.Context, r Range, reverse bool, yield func(messaging.Message) bool) error {
	defer l.keep(came(1)...)
	return l.memory.Read(ctx, r, reverse, yield)
}

// TestReplayOfTheFuture does not send the first message that is ever kept.
func TestReplayOfTheFuture(t *testing.T) {
	t.Parallel()
	w := try(broker.StreamReplay{Limit: -1}, nil)
	w.count = 1
	if err := w.run(t.Context(), growing{w.kept}, w.target); err != nil {
		t.Error(err)
	}
	w.target.none(t)
}

// TestReplayIsClosed keeps more messages while those before are replayed, after
// the clock was set back.
func TestReplayIsClosed(t *testing.T) {
	t.Parallel()
	kept := came(1000, 2000)
	w := try(broker.StreamReplay{Limit: -1, Speed: 1}, kept)
	w.count = 10 // as if it had been counted later
	w.begin(t)
	w.clock.waits(t, time.Second)
	w.kept.keep(came(2001, 2002)...)
	w.clock.advance(time.Second)
	w.ends(t, 2)
}

// TestReplayIsCounted does not go beyond what was there where times are equal.
func TestReplayIsCounted(t *testing.T) {
	t.Parallel()
	w := try(broker.StreamReplay{Limit: -1, Speed: 1}, came(1000, 2000)).begin(t)
	w.clock.waits(t, time.Second)
	w.kept.keep(came(2000)...)
	w.clock.advance(time.Second)
	w.ends(t, 2)
}

func TestReplayBatches(t *testing.T) {
	t.Parallel()
	t.Run("of 256 messages at most", func(t *testing.T) {
		t.Parallel()
		w := try(broker.StreamReplay{Limit: -1}, came(make([]int64, 600)...)).begin(t)
		for _, want := range []int{256, 256, 88} {
			if got := len(receive(t, w.target.batches)); got != want {
				t.Errorf("a batch has %d messages, want %d", got, want)
			}
		}
		w.ends(t, 600)
		if diff := cmp.Diff([]string{"again", "again", "again"}, w.target.asked); diff != "" {
			t.Errorf("room was asked for (-want +got):\n%s", diff)
		}
	})
	t.Run("of a mebibyte at most, but for a single message", func(t *testing.T) {
		t.Parallel()
		kept := came(0, 0, 0, 0, 0, 0)
		for i, size := range []int{400_000, 600_000, 100_000, 2_000_000, 10, 10} {
			kept[i].Payload = make([]byte, size)
		}
		w := try(broker.StreamReplay{Limit: -1}, kept).begin(t)
		for _, want := range []int{2, 1, 1, 2} {
			if got := len(receive(t, w.target.batches)); got != want {
				t.Errorf("a batch has %d messages, want %d", got, want)
			}
		}
		w.ends(t, 6)
	})
}

func TestReplayProgress(t *testing.T) {
	t.Parallel()
	clock := newDrivenClock()
	want := broker.StreamProgress{ReplayTopic: "again", Total: 3, StartedAt: clock.Now().UnixMilli(), Speed: 2, Reverse: true}
	for limit, total := range map[int64]int64{-1: 10, 3: 3, 0: 0, 11: 10} {
		p := newReplay(keeper, broker.StreamReplay{ReplayTopic: "again", Limit: limit, Speed: 2, Reverse: true}, 10, clock)
		want.Total = total
		if diff := cmp.Diff(want, p.progress()); diff != "" {
			t.Errorf("with limit %d (-want +got):\n%s", limit, diff)
		}
	}
}

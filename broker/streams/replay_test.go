package streams

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"signalbox/broker"
)

// memory is a Log of messages in order.
type memory struct {
	Log
	mu       sync.Mutex // guards messages and reads
	messages []Message
	reads    int   // of single messages
	err      error // what Read ends with
}

func (l *memory) keep(messages ...Message) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.messages = append(l.messages, messages...)
}

func (l *memory) Read(ctx context.Context, r Range, reverse bool, yield func(Message) bool) error {
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

func (l *memory) at(i int, reverse bool) (Message, bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if i >= len(l.messages) {
		return Message{}, false
	}
	l.reads++
	if reverse {
		i = len(l.messages) - 1 - i
	}
	return l.messages[i], true
}

// target is a broker that takes batches, if it is not told otherwise.
type target struct {
	Messaging
	batches chan []Message
	answers chan answer // to the next batches; without one all is taken
	asked   []string    // the topics that room was asked for, to be read at the end
}

// answer is what Publish gives.
type answer struct {
	done, refused int
	err           error
}

func newTarget() *target {
	return &target{batches: make(chan []Message, 1000), answers: make(chan answer, 100)}
}

// Room is always there. It is asked for by the goroutine of the replay only.
func (b *target) Room(_ context.Context, topic string) { b.asked = append(b.asked, topic) }

func (b *target) Publish(ctx context.Context, messages []Message) (done, refused int, err error) {
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

func payloads(batch []Message) string {
	var parts []string
	for _, m := range batch {
		parts = append(parts, string(m.Payload))
	}
	return strings.Join(parts, " ")
}

// came makes messages that came at the given milliseconds after a time, which
// are their payloads.
func came(at ...int64) []Message {
	var all []Message
	for _, ms := range at {
		all = append(all, Message{Topic: "source", Payload: fmt.Append(nil, ms), At: ms})
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
func try(r broker.StreamReplay, messages []Message) *trial {
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
	kept := []Message{
		{Topic: "source", Payload: []byte("p"), Properties: []byte{1, 0}, QoS: 2, At: 5, ExpiresAt: 9},
		{Topic: "source/x", Payload: nil, QoS: 0, At: 5},
	}
	for qos, want := range map[int][]byte{-1: {2, 0}, 0: {0, 0}, 1: {1, 1}, 2: {2, 2}} {
		w := try(broker.StreamReplay{Limit: -1, Speed: 0}, slices.Clone(kept))
		w.stream.TargetQoS = qos
		w.begin(t).ends(t, 2)
		wanted := []Message{
			{Topic: "again", Payload: []byte("p"), Properties: []byte{1, 0}, QoS: want[0], At: 5},
			{Topic: "again", QoS: want[1], At: 5},
		}
		if diff := cmp.Diff(wanted, receive(t, w.target.batches)); diff != "" {
			t.Errorf("at target QoS %d (-want +got):\n%s", qos, diff)
		}
		if diff := cmp.Diff([]Message{{Topic: "source", Payload: []byte("p"), Properties: []byte{1, 0}, QoS: 2, At: 5, ExpiresAt: 9}, {Topic: "source/x", At: 5}}, w.kept.messages); diff != "" {
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

func (l growing) Read(ctx context.Context, r Range, reverse bool, yield func(Message) bool) error {
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

func TestReplayPace(t *testing.T) {
	t.Parallel()
	t.Run("keeps the distances", func(t *testing.T) {
		t.Parallel()
		w := try(broker.StreamReplay{Limit: -1, Speed: 1}, came(10_000, 10_000, 11_500, 12_000)).begin(t)
		w.target.takes(t, "10000 10000")
		w.clock.waits(t, 1500*time.Millisecond)
		w.target.none(t)
		w.clock.advance(1500 * time.Millisecond)
		w.target.takes(t, "11500")
		w.clock.waits(t, 500*time.Millisecond)
		w.clock.advance(500 * time.Millisecond)
		w.target.takes(t, "12000")
		w.ends(t, 4)
	})
	t.Run("divides the distances by the speed", func(t *testing.T) {
		t.Parallel()
		w := try(broker.StreamReplay{Limit: -1, Speed: 2.5}, came(0, 5000)).begin(t)
		w.clock.waits(t, 2*time.Second)
		w.clock.advance(2 * time.Second)
		w.ends(t, 2)
	})
	t.Run("keeps the distances backwards", func(t *testing.T) {
		t.Parallel()
		w := try(broker.StreamReplay{Limit: -1, Speed: 0.5, Reverse: true}, came(0, 5000, 6000)).begin(t)
		w.target.takes(t, "6000")
		w.clock.waits(t, 2*time.Second)
		w.clock.advance(2 * time.Second)
		w.target.takes(t, "5000")
		w.clock.waits(t, 10*time.Second)
		w.clock.advance(10 * time.Second)
		w.target.takes(t, "0")
		w.ends(t, 3)
	})
	t.Run("catches up when it is late", func(t *testing.T) {
		t.Parallel()
		w := try(broker.StreamReplay{Limit: -1, Speed: 1}, came(0, 1000, 2000, 3000, 4000)).begin(t)
		w.target.takes(t, "0")
		w.clock.waits(t, time.Second)
		w.clock.advance(3250 * time.Millisecond)
		w.target.takes(t, "1000 2000 3000")
		w.clock.waits(t, 750*time.Millisecond)
		w.clock.advance(750 * time.Millisecond)
		w.target.takes(t, "4000")
		w.ends(t, 5)
	})
	t.Run("waits again when it is rung too early", func(t *testing.T) {
		t.Parallel()
		w := try(broker.StreamReplay{Limit: -1, Speed: 1}, came(0, 1000)).begin(t)
		w.target.takes(t, "0")
		w.clock.waits(t, time.Second)
		w.clock.mu.Lock()
		w.clock.alarms[0].due <- w.clock.now
		w.clock.mu.Unlock()
		w.clock.waits(t, time.Second)
		w.target.none(t)
		w.clock.advance(time.Second)
		w.ends(t, 2)
	})
	t.Run("has no pauses at speed 0", func(t *testing.T) {
		t.Parallel()
		w := try(broker.StreamReplay{Limit: -1, Speed: 0}, came(0, math.MaxInt64)).begin(t)
		w.target.takes(t, "0 9223372036854775807")
		w.ends(t, 2)
	})
}

// TestReplayIsStopped while it waits for years, and longer than can be told.
func TestReplayIsStopped(t *testing.T) {
	t.Parallel()
	const years = 10 * 365 * 24 * time.Hour
	for name, test := range map[string]struct {
		at    int64
		speed float64
		want  time.Duration
	}{
		"in ten years":   {years.Milliseconds(), 1, years},
		"in a long time": {math.MaxInt64, 1e-300, math.MaxInt64},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := try(broker.StreamReplay{Limit: -1, Speed: test.speed}, came(0, test.at)).begin(t)
			w.target.takes(t, "0")
			w.clock.waits(t, test.want)
			w.cancel()
			if err := receive(t, w.ended); !errors.Is(err, context.Canceled) {
				t.Errorf("ended with %v, want that it was cancelled", err)
			}
			w.target.none(t)
			if got := w.progress().Sent; got != 1 {
				t.Errorf("sent %d, want 1", got)
			}
			if got := w.clock.pending(); got != 0 {
				t.Errorf("%d timers are left", got)
			}
		})
	}
}

// TestReplayIsStoppedWhilePublishing has Publish end with the context.
func TestReplayIsStoppedWhilePublishing(t *testing.T) {
	t.Parallel()
	w := try(broker.StreamReplay{Limit: -1}, came(0))
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := w.run(ctx, w.kept, w.target); !errors.Is(err, context.Canceled) {
		t.Errorf("ended with %v, want that it was cancelled", err)
	}
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

var errAway = &broker.Error{Kind: broker.Unavailable, Msg: "the broker is not reached"}

// TestReplayWaitsForTheBroker goes on where it was, at growing distances, and
// then catches up.
func TestReplayWaitsForTheBroker(t *testing.T) {
	t.Parallel()
	w := try(broker.StreamReplay{Limit: -1, Speed: 1}, came(0, 0, 0, 10_000, 1_000_000))
	for range 7 {
		w.target.answers <- answer{err: errAway}
	}
	w.target.answers <- answer{done: 2, err: fmt.Errorf("publish: %w", errAway)}
	w.begin(t)
	for _, seconds := range []time.Duration{1, 2, 4, 8, 16, 30, 30} {
		w.target.takes(t, "0 0 0")
		w.clock.waits(t, seconds*time.Second)
		w.target.none(t)
		w.clock.advance(seconds * time.Second)
	}
	w.target.takes(t, "0 0 0")
	w.clock.waits(t, time.Second) // as it went on a little
	if got := w.progress().Sent; got != 2 {
		t.Errorf("sent %d, want 2", got)
	}
	w.clock.advance(time.Second)
	w.target.takes(t, "0")
	w.target.takes(t, "10000")
	w.clock.waits(t, (1000-92)*time.Second)
	w.clock.advance(1000 * time.Second)
	w.target.takes(t, "1000000")
	w.ends(t, 5)
	if got := strings.Count(w.logged.String(), "waits for the broker"); got != 1 {
		t.Errorf("told of it %d times, want once:\n%s", got, w.logged)
	}
}

// TestReplayTellsOfEachOutage once.
func TestReplayTellsOfEachOutage(t *testing.T) {
	t.Parallel()
	w := try(broker.StreamReplay{Limit: -1, Speed: 1}, came(0, 1, 2))
	for _, a := range []answer{{err: errAway}, {done: 1}, {err: errAway}, {done: 2}} {
		w.target.answers <- a
	}
	w.begin(t)
	w.clock.waits(t, time.Second)
	w.target.takes(t, "0")
	w.clock.advance(time.Second)
	w.target.takes(t, "0")
	w.target.takes(t, "1 2") // both are late
	w.clock.waits(t, time.Second)
	w.clock.advance(time.Second)
	w.target.takes(t, "1 2")
	w.ends(t, 3)
	if got := strings.Count(w.logged.String(), "waits for the broker"); got != 2 {
		t.Errorf("told of it %d times, want twice:\n%s", got, w.logged)
	}
}

func TestReplayIsStoppedWhileItWaits(t *testing.T) {
	t.Parallel()
	w := try(broker.StreamReplay{Limit: -1}, came(0))
	w.target.answers <- answer{err: errAway}
	w.begin(t)
	w.clock.waits(t, time.Second)
	w.cancel()
	if err := receive(t, w.ended); !errors.Is(err, context.Canceled) {
		t.Errorf("ended with %v, want that it was cancelled", err)
	}
}

// TestReplayIsStoppedWhileReading tells of that rather than of what it broke.
func TestReplayIsStoppedWhileReading(t *testing.T) {
	t.Parallel()
	w := try(broker.StreamReplay{Limit: -1}, nil)
	w.count, w.kept.err = 1, errors.New("interrupted")
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := w.run(ctx, w.kept, w.target); !errors.Is(err, context.Canceled) {
		t.Errorf("ended with %v, want that it was cancelled", err)
	}
}

func TestReplayFails(t *testing.T) {
	t.Parallel()
	t.Run("when the broker takes no more", func(t *testing.T) {
		t.Parallel()
		broken := &broker.Error{Kind: broker.Unconfirmed, Msg: "no answer"}
		w := try(broker.StreamReplay{Limit: -1}, came(make([]int64, 1000)...))
		w.target.answers <- answer{done: 100, err: broken}
		w.begin(t)
		if err := receive(t, w.ended); !errors.Is(err, broken) {
			t.Errorf("ended with %v, want %v", err, broken)
		}
		receive(t, w.target.batches)
		w.target.none(t)
		if got := w.progress().Sent; got != 100 {
			t.Errorf("sent %d, want 100", got)
		}
		if got := w.kept.reads; got > 300 {
			t.Errorf("%d messages were read, though none could be sent any more", got)
		}
	})
	t.Run("when what is kept cannot be read", func(t *testing.T) {
		t.Parallel()
		broken := errors.New("broken")
		for _, kept := range [][]Message{nil, came(0)} { // when it looks for the end, and later
			w := try(broker.StreamReplay{Limit: -1}, kept)
			w.count, w.kept.err = 2, broken
			if err := w.run(t.Context(), w.kept, w.target); !errors.Is(err, broken) {
				t.Errorf("ended with %v, want %v", err, broken)
			}
			w.target.none(t)
		}
	})
}

// TestReplayGoesOnAfterRefusals does not count as sent what was refused.
func TestReplayGoesOnAfterRefusals(t *testing.T) {
	t.Parallel()
	w := try(broker.StreamReplay{Limit: -1}, came(make([]int64, 300)...))
	w.target.answers <- answer{done: 256, refused: 6}
	w.begin(t).ends(t, 294)
	if !strings.Contains(w.logged.String(), "refused=6") {
		t.Errorf("the refusals are not told of: %q", w.logged)
	}
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

func TestRangeOf(t *testing.T) {
	t.Parallel()
	seconds := func(f float64) *float64 { return &f }
	everything := Range{From: math.MinInt64, To: math.MaxInt64}
	for _, test := range []struct {
		gte, lte *float64
		want     Range
	}{
		{nil, nil, everything},
		{seconds(5), seconds(5), Range{5000, 5000}},
		{seconds(1.0001), seconds(1.0099), Range{1001, 1009}},
		{seconds(1.001), seconds(1.001), Range{1001, 1001}}, // whose products are not 1001
		{seconds(4.035), seconds(4.035), Range{4035, 4035}},
		{seconds(1_700_000_000.123), seconds(1_700_000_000.123), Range{1_700_000_000_123, 1_700_000_000_123}},
		{seconds(-1.5), seconds(-0.5), Range{-1500, -500}},
		{seconds(-1e300), seconds(1e300), everything},
		{nil, seconds(0), Range{math.MinInt64, 0}},
	} {
		got, err := rangeOf(test.gte, test.lte)
		if err != nil || got != test.want {
			t.Errorf("got %+v, error %v, want %+v", got, err, test.want)
		}
	}
	for _, test := range []struct {
		gte, lte float64
		want     string
	}{
		{2, 1, "lte"}, {math.NaN(), 1, "gte"}, {1, math.NaN(), "lte"}, {math.Inf(-1), math.Inf(1), "gte lte"},
	} {
		_, err := rangeOf(&test.gte, &test.lte)
		if got := refusal(t, err, ""); got != test.want {
			t.Errorf("from %v to %v refused %q, want %q", test.gte, test.lte, got, test.want)
		}
	}
}

// FuzzRangeOf holds ranges of whole milliseconds against them.
func FuzzRangeOf(f *testing.F) {
	f.Add(int64(0), int64(0))
	f.Add(int64(1_700_000_000_123), int64(4_102_444_800_999))
	f.Fuzz(func(t *testing.T, from, to int64) {
		const year10000 = 253_402_300_800_000
		if from, to = min(from, to), max(from, to); from < 0 || to > year10000 {
			return
		}
		got, err := rangeOf(new(float64(from)/1000), new(float64(to)/1000))
		if want := (Range{from, to}); err != nil || got != want {
			t.Errorf("got %+v, error %v, want %+v", got, err, want)
		}
	})
}

func TestCheckReplay(t *testing.T) {
	t.Parallel()
	good := broker.StreamReplay{StreamName: "s", ReplayTopic: "again", Limit: -1, Speed: 1}
	for name, test := range map[string]struct {
		change func(*broker.StreamReplay)
		want   string
	}{
		"no topic":                 {func(r *broker.StreamReplay) { r.ReplayTopic = "" }, "replaytopic"},
		"a topic with a wildcard":  {func(r *broker.StreamReplay) { r.ReplayTopic = "a/+" }, "replaytopic"},
		"a topic of the system":    {func(r *broker.StreamReplay) { r.ReplayTopic = "$SYS/x" }, "replaytopic"},
		"an end before the begin":  {func(r *broker.StreamReplay) { r.GTE, r.LTE = new(2.0), new(1.0) }, "lte"},
		"a begin that is no time":  {func(r *broker.StreamReplay) { r.GTE = new(math.NaN()) }, "gte"},
		"a negative limit":         {func(r *broker.StreamReplay) { r.Limit = -2 }, "limit"},
		"a negative speed":         {func(r *broker.StreamReplay) { r.Speed = -1 }, "speed"},
		"an infinite speed":        {func(r *broker.StreamReplay) { r.Speed = math.Inf(1) }, "speed"},
		"a speed that is no speed": {func(r *broker.StreamReplay) { r.Speed = math.NaN() }, "speed"},
		"everything at once": {func(r *broker.StreamReplay) {
			*r = broker.StreamReplay{GTE: new(2.0), LTE: new(1.0), Limit: -5, Speed: -1}
		}, "replaytopic lte limit speed"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := good
			test.change(&r)
			if got := refusal(t, checkReplay(Definition{}, r), opReplay); got != test.want {
				t.Errorf("refused %q, want %q", got, test.want)
			}
		})
	}
	for _, speed := range []float64{0, 0.001, 1, 1e9} {
		good.Speed = speed
		if err := checkReplay(keeper, good); err != nil {
			t.Error(err)
		}
	}
	forgetful := keeper
	forgetful.Persist = false
	if err := checkReplay(forgetful, good); broker.KindOf(err) != broker.Conflict {
		t.Errorf("of a stream that keeps nothing: got %v, want a conflict", err)
	}
}

package streams

import (
	"context"
	"errors"
	"fmt"
	"math"
	"strings"
	"testing"
	"time"

	"signalbox/broker"
	"signalbox/broker/messaging"
)

func TestReplayPace(t *testing.T) {
	t.Parallel()
	t.Run("keeps the distances", func(t *testing.T) {
		t.Parallel()
		w := newReplayTest(broker.StreamReplay{Limit: -1, Speed: 1}, messagesAt(10_000, 10_000, 11_500, 12_000)).begin(t)
		w.target.wantBatch(t, "10000 10000")
		w.clock.wantWait(t, 1500*time.Millisecond)
		w.target.wantNone(t)
		w.clock.advance(1500 * time.Millisecond)
		w.target.wantBatch(t, "11500")
		w.clock.wantWait(t, 500*time.Millisecond)
		w.clock.advance(500 * time.Millisecond)
		w.target.wantBatch(t, "12000")
		w.wantSent(t, 4)
	})
	t.Run("divides the distances by the speed", func(t *testing.T) {
		t.Parallel()
		w := newReplayTest(broker.StreamReplay{Limit: -1, Speed: 2.5}, messagesAt(0, 5000)).begin(t)
		w.clock.wantWait(t, 2*time.Second)
		w.clock.advance(2 * time.Second)
		w.wantSent(t, 2)
	})
	t.Run("keeps the distances backwards", func(t *testing.T) {
		t.Parallel()
		w := newReplayTest(broker.StreamReplay{Limit: -1, Speed: 0.5, Reverse: true}, messagesAt(0, 5000, 6000)).begin(t)
		w.target.wantBatch(t, "6000")
		w.clock.wantWait(t, 2*time.Second)
		w.clock.advance(2 * time.Second)
		w.target.wantBatch(t, "5000")
		w.clock.wantWait(t, 10*time.Second)
		w.clock.advance(10 * time.Second)
		w.target.wantBatch(t, "0")
		w.wantSent(t, 3)
	})
	t.Run("catches up when it is late", func(t *testing.T) {
		t.Parallel()
		w := newReplayTest(broker.StreamReplay{Limit: -1, Speed: 1}, messagesAt(0, 1000, 2000, 3000, 4000)).begin(t)
		w.target.wantBatch(t, "0")
		w.clock.wantWait(t, time.Second)
		w.clock.advance(3250 * time.Millisecond)
		w.target.wantBatch(t, "1000 2000 3000")
		w.clock.wantWait(t, 750*time.Millisecond)
		w.clock.advance(750 * time.Millisecond)
		w.target.wantBatch(t, "4000")
		w.wantSent(t, 5)
	})
	t.Run("waits again when it is rung too early", func(t *testing.T) {
		t.Parallel()
		w := newReplayTest(broker.StreamReplay{Limit: -1, Speed: 1}, messagesAt(0, 1000)).begin(t)
		w.target.wantBatch(t, "0")
		w.clock.wantWait(t, time.Second)
		w.clock.mu.Lock()
		w.clock.timers[0].due <- w.clock.now
		w.clock.mu.Unlock()
		w.clock.wantWait(t, time.Second)
		w.target.wantNone(t)
		w.clock.advance(time.Second)
		w.wantSent(t, 2)
	})
	t.Run("has no pauses at speed 0", func(t *testing.T) {
		t.Parallel()
		w := newReplayTest(broker.StreamReplay{Limit: -1, Speed: 0}, messagesAt(0, math.MaxInt64)).begin(t)
		w.target.wantBatch(t, "0 9223372036854775807")
		w.wantSent(t, 2)
	})
}

// TestReplayIsStopped stops replays that wait for years, and longer than a
// Duration.
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
			w := newReplayTest(broker.StreamReplay{Limit: -1, Speed: test.speed}, messagesAt(0, test.at)).begin(t)
			w.target.wantBatch(t, "0")
			w.clock.wantWait(t, test.want)
			w.cancel()
			if err := receive(t, w.ended); !errors.Is(err, context.Canceled) {
				t.Errorf("ended with %v, want that it was cancelled", err)
			}
			w.target.wantNone(t)
			if got := w.progress().Sent; got != 1 {
				t.Errorf("sent %d, want 1", got)
			}
			if got := w.clock.pending(); got != 0 {
				t.Errorf("%d timers are left", got)
			}
		})
	}
}

// TestReplayIsStoppedWhilePublishing stops a replay during Publish.
func TestReplayIsStoppedWhilePublishing(t *testing.T) {
	t.Parallel()
	w := newReplayTest(broker.StreamReplay{Limit: -1}, messagesAt(0))
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := w.run(ctx, w.kept, w.target); !errors.Is(err, context.Canceled) {
		t.Errorf("ended with %v, want that it was cancelled", err)
	}
}

var errUnreachable = &broker.Error{Kind: broker.Unavailable, Msg: "the broker is not reached"}

// TestReplayWaitsForTheBroker checks that a replay retries with growing pauses,
// continues where it stopped, and then catches up.
func TestReplayWaitsForTheBroker(t *testing.T) {
	t.Parallel()
	w := newReplayTest(broker.StreamReplay{Limit: -1, Speed: 1}, messagesAt(0, 0, 0, 10_000, 1_000_000))
	for range 7 {
		w.target.results <- result{err: errUnreachable}
	}
	w.target.results <- result{done: 2, err: fmt.Errorf("publish: %w", errUnreachable)}
	w.begin(t)
	for _, seconds := range []time.Duration{1, 2, 4, 8, 16, 30, 30} {
		w.target.wantBatch(t, "0 0 0")
		w.clock.wantWait(t, seconds*time.Second)
		w.target.wantNone(t)
		w.clock.advance(seconds * time.Second)
	}
	w.target.wantBatch(t, "0 0 0")
	w.clock.wantWait(t, time.Second) // the shortest pause, because there was progress
	if got := w.progress().Sent; got != 2 {
		t.Errorf("sent %d, want 2", got)
	}
	w.clock.advance(time.Second)
	w.target.wantBatch(t, "0")
	w.target.wantBatch(t, "10000")
	w.clock.wantWait(t, (1000-92)*time.Second)
	w.clock.advance(1000 * time.Second)
	w.target.wantBatch(t, "1000000")
	w.wantSent(t, 5)
	if got := strings.Count(w.logged.String(), "waits for the broker"); got != 1 {
		t.Errorf("told of it %d times, want once:\n%s", got, w.logged)
	}
}

// TestReplayLogsEachOutageOnce checks the number of log entries.
func TestReplayLogsEachOutageOnce(t *testing.T) {
	t.Parallel()
	w := newReplayTest(broker.StreamReplay{Limit: -1, Speed: 1}, messagesAt(0, 1, 2))
	for _, a := range []result{{err: errUnreachable}, {done: 1}, {err: errUnreachable}, {done: 2}} {
		w.target.results <- a
	}
	w.begin(t)
	w.clock.wantWait(t, time.Second)
	w.target.wantBatch(t, "0")
	w.clock.advance(time.Second)
	w.target.wantBatch(t, "0")
	w.target.wantBatch(t, "1 2") // both are overdue
	w.clock.wantWait(t, time.Second)
	w.clock.advance(time.Second)
	w.target.wantBatch(t, "1 2")
	w.wantSent(t, 3)
	if got := strings.Count(w.logged.String(), "waits for the broker"); got != 2 {
		t.Errorf("told of it %d times, want twice:\n%s", got, w.logged)
	}
}

func TestReplayIsStoppedWhileItWaits(t *testing.T) {
	t.Parallel()
	w := newReplayTest(broker.StreamReplay{Limit: -1}, messagesAt(0))
	w.target.results <- result{err: errUnreachable}
	w.begin(t)
	w.clock.wantWait(t, time.Second)
	w.cancel()
	if err := receive(t, w.ended); !errors.Is(err, context.Canceled) {
		t.Errorf("ended with %v, want that it was cancelled", err)
	}
}

// TestReplayIsStoppedWhileReading checks that the error is that of the context,
// not the read error that results.
func TestReplayIsStoppedWhileReading(t *testing.T) {
	t.Parallel()
	w := newReplayTest(broker.StreamReplay{Limit: -1}, nil)
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
		w := newReplayTest(broker.StreamReplay{Limit: -1}, messagesAt(make([]int64, 1000)...))
		w.target.results <- result{done: 100, err: broken}
		w.begin(t)
		if err := receive(t, w.ended); !errors.Is(err, broken) {
			t.Errorf("ended with %v, want %v", err, broken)
		}
		receive(t, w.target.batches)
		w.target.wantNone(t)
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
		for _, kept := range [][]messaging.Message{nil, messagesAt(0)} { // at the search for the end, and later
			w := newReplayTest(broker.StreamReplay{Limit: -1}, kept)
			w.count, w.kept.err = 2, broken
			if err := w.run(t.Context(), w.kept, w.target); !errors.Is(err, broken) {
				t.Errorf("ended with %v, want %v", err, broken)
			}
			w.target.wantNone(t)
		}
	})
}

// TestReplayGoesOnAfterRefusals checks that refused messages do not count as
// sent.
func TestReplayGoesOnAfterRefusals(t *testing.T) {
	t.Parallel()
	w := newReplayTest(broker.StreamReplay{Limit: -1}, messagesAt(make([]int64, 300)...))
	w.target.results <- result{done: 256, refused: 6}
	w.begin(t).wantSent(t, 294)
	if !strings.Contains(w.logged.String(), "refused=6") {
		t.Errorf("the refusals are not told of: %q", w.logged)
	}
}

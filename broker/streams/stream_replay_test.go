package streams_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"signalbox/broker"
	"signalbox/broker/messaging"
	"signalbox/broker/streams"
	"signalbox/scripts/suite"
)

// again is a replay of stream "s" to "again".
var again = broker.StreamReplay{StreamName: "s", ReplayTopic: "again", Limit: -1}

// startBlockedReplay returns a stream "s" with a thousand messages and a replay
// that is blocked in Publish until leave is called.
func startBlockedReplay(t *testing.T, change ...func(*broker.StreamSpec)) (r *fixture, leave func()) {
	t.Helper()
	r = start(t, nil, streams.DefaultConfig())
	r.create(append(change, persist)...)
	r.broker.deliverAll(1, numbers(0, 1000)...)
	r.counts("all are kept", func(s broker.StreamStats) bool { return s.Persisted == 1000 })
	entered, leave := r.broker.blockPublish()
	must(t, r.ReplayStream(t.Context(), again))
	wantClosed(t, entered)
	return r, leave
}

// ended waits until no replay of stream "s" runs.
func (r *fixture) ended() {
	r.tb.Helper()
	await(r.tb, func() error {
		if s, err := r.GetStream(context.Background(), "s"); err != nil || s.Replaying || s.Replay != nil {
			return errors.Join(err, errors.New("it is being replayed"))
		}
		return nil
	})
}

// TestReplayIsOne checks that there is one replay at a time, and counts what it
// sends.
func TestReplayIsOne(t *testing.T) {
	t.Parallel()
	r, leave := startBlockedReplay(t)
	if e := wantKind(t, r.ReplayStream(t.Context(), again), broker.Conflict); !strings.Contains(e.Msg, "stop it") {
		t.Errorf("the error says %q", e.Msg)
	}
	s, err := r.GetStream(t.Context(), "s")
	must(t, err)
	if p := s.Replay; !s.Replaying || p == nil || p.Total != 1000 || p.Sent != 0 || p.ReplayTopic != "again" || p.StartedAt == 0 {
		t.Errorf("got %+v, %+v", s, s.Replay)
	}
	leave()
	r.ended()
	if got := r.broker.payloads("again"); !slices.Equal(got, numbers(0, 1000)) {
		t.Errorf("%d messages were replayed", len(got))
	}
	must(t, r.ReplayStream(t.Context(), again))
	r.ended()
	if got := r.stats("s").Replayed; got != 2000 {
		t.Errorf("%d messages are counted", got)
	}
	wantKind(t, r.StopStreamReplay(t.Context(), "s"), broker.Conflict)
}

// TestReplayProgressShown checks the progress in the record while a replay
// runs.
func TestReplayProgressShown(t *testing.T) {
	t.Parallel()
	r, leave := startBlockedReplay(t)
	taken, second := 0, make(chan struct{})
	r.broker.setOnPublish(func(ctx context.Context, list []messaging.Message) (int, int, error) {
		if taken += len(list); taken > 500 {
			close(second)
			<-ctx.Done()
			return 0, 0, ctx.Err()
		}
		return len(list), 0, nil
	})
	leave()
	wantClosed(t, second)
	s, err := r.GetStream(t.Context(), "s")
	must(t, err)
	sent := s.Replay.Sent
	if sent == 0 || sent >= 1000 || s.Stats.Replayed != sent {
		t.Errorf("sent %d, counted %d", sent, s.Stats.Replayed)
	}
	must(t, r.StopStreamReplay(t.Context(), "s"))
	if got := r.stats("s").Replayed; got != sent {
		t.Errorf("%d are counted after the end, want %d", got, sent)
	}
}

// TestReplayIsStopped stops a replay explicitly, with its stream, and with the
// engine; each waits for it.
func TestReplayIsStopped(t *testing.T) {
	t.Parallel()
	for name, stop := range map[string]func(*fixture) error{
		"stop":   func(r *fixture) error { return r.StopStreamReplay(context.Background(), "s") },
		"delete": func(r *fixture) error { return r.DeleteStream(context.Background(), "s") },
		"close":  func(r *fixture) error { return r.Close(context.Background()) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r, leave := startBlockedReplay(t)
			entered, left := make(chan struct{}), make(chan struct{})
			r.broker.setOnPublish(func(ctx context.Context, _ []messaging.Message) (int, int, error) {
				close(entered)
				<-ctx.Done()
				<-time.After(20 * time.Millisecond) // long enough for a call that does not wait to return
				close(left)
				return 0, 0, ctx.Err()
			})
			leave()
			wantClosed(t, entered)
			begun := time.Now()
			must(t, stop(r))
			select {
			case <-left:
			default:
				t.Error("it did not wait for the replay's end")
			}
			if took := time.Since(begun); took > suite.HangLimit {
				t.Errorf("it took %v", took)
			}
			tries := r.broker.publishAttempts()
			r.broker.setOnPublish(nil)
			r.restart()
			if s := r.Streams(); len(s) > 0 && s[0].Replaying {
				t.Error("it is still replayed")
			}
			if got := r.broker.publishAttempts(); got != tries {
				t.Error("something has been published after the end")
			}
		})
	}
}

// TestReplayOutlivesChange checks that a replay continues when its stream
// becomes inactive.
func TestReplayOutlivesChange(t *testing.T) {
	t.Parallel()
	r, leave := startBlockedReplay(t)
	r.modify(inactive, from("elsewhere"), func(s *broker.StreamSpec) { s.Persist = new(false) })
	leave()
	r.ended()
	if got := len(r.broker.payloads("again")); got != 1000 {
		t.Errorf("%d messages were replayed", got)
	}
	wantKind(t, r.ReplayStream(t.Context(), again), broker.Conflict) // it does not persist messages any more
}

// TestReplayNotReached checks that a replay is refused if the broker cannot be
// reached.
func TestReplayNotReached(t *testing.T) {
	t.Parallel()
	r := start(t, nil, streams.DefaultConfig())
	r.create(persist)
	r.broker.mu.Lock()
	r.broker.reachedErr = errUnreachable
	r.broker.mu.Unlock()
	if e := wantKind(t, r.ReplayStream(t.Context(), again), broker.Unavailable); e.Op == "" {
		t.Errorf("got %+v", e)
	}
}

// TestReplayLoops checks that no stream can be activated that would take the
// messages of a running replay back to its stream.
func TestReplayLoops(t *testing.T) {
	t.Parallel()
	on := func(s *broker.StreamSpec) { s.Active = new(true) }
	t.Run("when it is enabled", func(t *testing.T) {
		t.Parallel()
		r, leave := startBlockedReplay(t)
		leave()
		r.ended()
		r.modify(inactive)
		entered, leave := r.broker.blockPublish()
		must(t, r.ReplayStream(t.Context(), broker.StreamReplay{StreamName: "s", ReplayTopic: "in", Limit: -1}))
		wantClosed(t, entered)
		e := wantKind(t, r.ModifyStream(t.Context(), spec(on), false), broker.Conflict)
		if want := `"s" → "in" → "s"`; !strings.Contains(e.Msg, want) || e.Op == "" {
			t.Errorf("the error says %q, want %q", e.Msg, want)
		}
		must(t, r.ModifyStream(t.Context(), spec(on, from("free")), false))
		leave()
		r.ended()
		r.modify(from("in"))
	})
	t.Run("through others", func(t *testing.T) {
		t.Parallel()
		r, leave := startBlockedReplay(t)
		r.create(named("a"), from("again"), to("b"))
		r.create(named("c"), from("b"), to("in"), inactive)
		way := `"s" → "again" → "a" → "b" → "c" → "in" → "s"`
		for _, change := range []broker.StreamSpec{{StreamName: "c", Active: new(true)}, spec(named("c"), from("b"), to("in"))} {
			e := wantKind(t, r.ModifyStream(t.Context(), change, false || change.TargetTopic != nil), broker.Conflict)
			if !strings.Contains(e.Msg, way) {
				t.Errorf("the error says %q, want %q", e.Msg, way)
			}
		}
		wantKind(t, r.CreateStream(t.Context(), spec(named("d"), from("b"), to("in"))), broker.Conflict)
		must(t, r.CreateStream(t.Context(), spec(named("d"), from("b"), to("out"))))
		leave()
		r.ended()
		must(t, r.ModifyStream(t.Context(), broker.StreamSpec{StreamName: "c", Active: new(true)}, false))
		wantKind(t, r.ReplayStream(t.Context(), again), broker.Invalid)
	})
}

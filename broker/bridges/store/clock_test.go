package store

import (
	"log/slog"
	"testing"
	"time"

	"signalbox/broker/bridges"
	"signalbox/broker/clock"
	"signalbox/broker/clock/clocktest"
	"signalbox/broker/messaging"
)

// TestClockIsSet sets the time of day while the store is open or closed. Queued messages keep
// their remaining time, by the clock of the process, even as a dead letter that is retried.
func TestClockIsSet(t *testing.T) {
	t.Parallel()
	const day = 24 * time.Hour
	for name, by := range map[string]time.Duration{"an hour back": -time.Hour, "400 days back": -400 * day, "400 days forward": 400 * day} {
		for when, open := range map[string]bool{"open": true, "closed": false} {
			t.Run(name+" while it is "+when, func(t *testing.T) {
				t.Parallel()
				clockIsSet(t, by, open)
			})
		}
	}
}

func clockIsSet(t *testing.T, by time.Duration, whileOpen bool) {
	m, dir := clocktest.New(), t.TempDir()
	var c *clock.Clock
	var q *Queue
	begin := func() *Store {
		c = clock.New(m.Sources(), slog.New(slog.DiscardHandler))
		s := open(t, dir, Options{Clock: c})
		q = onlyQueue(t, s, wide)
		return s
	}
	put := func(mapping string) {
		e := bridges.Entry{Mapping: mapping, Message: messaging.Message{Topic: "t", At: c.Now().UnixMilli(), ExpiresAt: c.Now().Add(time.Hour).UnixMilli()}}
		must(t, <-putAsync(t, q, e))
	}
	wantLeft := func(want ...time.Duration) {
		t.Helper()
		list := peek(t, q, 0)
		if len(list) != len(want) {
			t.Fatalf("%d messages are queued, want %d", len(list), len(want))
		}
		for i, e := range list {
			left, age := time.UnixMilli(e.ExpiresAt).Sub(c.Now()), c.Now().Sub(time.UnixMilli(e.At))
			if left != want[i] || age != time.Hour-want[i] {
				t.Errorf("message %d is %v old and has %v left, want %v", i, age, left, want[i])
			}
		}
	}
	s := begin()
	put("first")
	if whileOpen {
		m.Step(by)
		c.Look()
	}
	m.Pass(5 * time.Minute)
	put("second")
	wantLeft(55*time.Minute, time.Hour)
	shut(t, s)
	if !whileOpen {
		m.Step(by)
	}
	m.Pass(5 * time.Minute)
	s = begin()
	wantLeft(50*time.Minute, 55*time.Minute)
	put("third")
	first := peek(t, q, 0)[0]
	must(t, q.Reject(t.Context(), []bridges.Rejection{{ID: first.ID, Reason: "no", At: c.Now()}}))
	_, letters, err := q.DeadLetters(t.Context(), 0, 10)
	must(t, err)
	if age := m.Sources().Wall().Sub(letters[0].ReceivedAt); age != 10*time.Minute {
		t.Errorf("the dead letter is %v old, want 10 minutes", age)
	}
	if n, err := q.RetryDeadLetters(t.Context(), nil); n != 1 || err != nil {
		t.Errorf("put back %d dead letters (%v), want 1", n, err)
	}
	wantLeft(55*time.Minute, time.Hour, 50*time.Minute)
	shut(t, s)
	m.Pass(time.Minute)
	s = begin()
	wantLeft(54*time.Minute, 59*time.Minute, 49*time.Minute)
	shut(t, s)
}

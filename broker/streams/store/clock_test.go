package store

import (
	"log/slog"
	"testing"
	"testing/synctest"
	"time"

	"signalbox/broker/clock"
	"signalbox/broker/clock/clocktest"
	"signalbox/broker/messaging"
	"signalbox/broker/streams"
)

// TestClockIsSet sets the time of day while the store is open or closed.
// Messages expire by their age, and are found by the time of day as it is set
// now.
func TestClockIsSet(t *testing.T) {
	t.Parallel()
	const day = 24 * time.Hour
	for name, by := range map[string]time.Duration{"an hour back": -time.Hour, "400 days back": -400 * day, "400 days forward": 400 * day} {
		for when, open := range map[string]bool{"open": true, "closed": false} {
			t.Run(name+" while it is "+when, func(t *testing.T) {
				t.Parallel()
				synctest.Test(t, func(t *testing.T) { clockIsSet(t, by, open) })
			})
		}
	}
}

func clockIsSet(t *testing.T, by time.Duration, whileOpen bool) {
	const ttl = 600 // seconds
	m, dir := clocktest.New(), t.TempDir()
	var c *clock.Clock
	begin := func() *Store {
		c = clock.New(m.Sources(), slog.New(slog.DiscardHandler))
		return open(t, dir, Options{Clock: c})
	}
	s := begin()
	id := define(t, s, "s", ttl)
	l := openLog(t, s, id)
	say := func(payload string) {
		appendAndWait(t, l, messaging.Message{Topic: "t", Payload: []byte(payload), At: c.Now().UnixMilli()})
	}
	ago := func(d time.Duration) int64 { return c.Wall(c.Now().Add(-d)).UnixMilli() }
	say("first")
	m.Pass(5 * time.Minute)
	if whileOpen {
		m.Step(by)
		c.Look()
	}
	say("second")
	wantTimes(t, l, ago(5*time.Minute), ago(0))
	elapse(time.Hour) // so that a sweep runs
	wantTimes(t, l, ago(5*time.Minute), ago(0))
	closeStore(t, s)
	if !whileOpen {
		m.Step(by)
	}
	m.Pass(4 * time.Minute)
	s = begin()
	defer func() { closeStore(t, s) }()
	l = openLog(t, s, id)
	elapse(time.Hour)
	wantTimes(t, l, ago(9*time.Minute), ago(4*time.Minute))
	say("third")
	wantTimes(t, l, ago(9*time.Minute), ago(4*time.Minute), ago(0))
	if got := read(t, l, streams.Range{From: ago(5 * time.Minute), To: ago(time.Minute)}, true); len(got) != 1 || string(got[0].Payload) != "second" {
		t.Errorf("found %v, want the second", got)
	}
	m.Pass(2 * time.Minute)
	elapse(time.Hour)
	wantTimes(t, l, ago(6*time.Minute), ago(2*time.Minute))
	must(t, l.Clear(t.Context(), streams.Range{From: ago(3 * time.Minute), To: ago(0)}))
	wantTimes(t, l, ago(6*time.Minute))
	checkFile(t, s)
}

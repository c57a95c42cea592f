package store

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"

	"signalbox/broker/streams"
)

// TestClearIsBehindWhatWasHandedOver deletes also what is not stored yet, and
// nothing that comes later.
func TestClearIsBehindWhatWasHandedOver(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := fresh(t, Options{})
		l := stream(t, s, "s", 0)
		must(t, s.file.Lock(t.Context()))
		for at := range int64(10) {
			hand(t, l, messages(at, 1)...)
		}
		cleared := make(chan error, 1)
		go func() { cleared <- l.Clear(t.Context(), streams.Range{From: 2, To: 100}) }()
		synctest.Wait()
		hand(t, l, messages(50, 2)...)
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		if err := l.Clear(ctx, streams.Range{From: 51, To: 51}); !errors.Is(err, context.Canceled) {
			t.Errorf("got %v", err)
		}
		s.file.Unlock()
		must(t, <-cleared, <-hand(t, l))
		synctest.Wait()
		wantTimes(t, l, 0, 1, 50) // whoever no longer waits has it done all the same
		sound(t, s)
	})
}

// TestClearMuch takes several portions for it, and stores messages in between.
func TestClearMuch(t *testing.T) {
	t.Parallel()
	s := fresh(t, Options{})
	l := stream(t, s, "s", 0)
	for at := range int64(3 * listRows) {
		keep(t, l, messages(2*at, 1)...)
	}
	big := messages(3000, 20)
	for i := range big {
		big[i].Payload = make([]byte, 2<<20)
	}
	keep(t, l, big...)
	must(t, l.Clear(t.Context(), streams.Range{From: 3, To: 3018}))
	wantTimes(t, l, 0, 2, 3019)
	sound(t, s)
}

// TestDamage has blocks that cannot be read, which are logged, counted as evicted
// and deleted; what is in the others is read.
func TestDamage(t *testing.T) {
	t.Parallel()
	for name, meets := range map[string]func(t *testing.T, l *Log){
		"read":  func(t *testing.T, l *Log) { read(t, l, everything, false) },
		"count": func(t *testing.T, l *Log) { must(t, wasError(l.Count(t.Context(), streams.Range{From: 2, To: 8}))) },
		"clear": func(t *testing.T, l *Log) { must(t, l.Clear(t.Context(), streams.Range{From: 2, To: 2})) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				said := &strings.Builder{}
				s := fresh(t, Options{Log: toText(said)})
				l := stream(t, s, "s", 0)
				for at := int64(1); at < 9; at += 3 {
					keep(t, l, messages(at, 3)...)
				}
				within(t, s, `UPDATE block SET messages = substr(messages, 1, length(messages) - 1) WHERE first_at = 1`)
				meets(t, l)
				synctest.Wait()
				wantTimes(t, l, 4, 5, 6, 7, 8, 9)
				if u := l.Usage(); u.Evicted != 3 {
					t.Errorf("counted %d messages as evicted, want 3", u.Evicted)
				}
				if got := said.String(); strings.Count(got, "level=ERROR") != 1 || !strings.Contains(got, "damaged") || strings.Contains(got, "payload") {
					t.Errorf("logged %s", got)
				}
				sound(t, s)
			})
		})
	}
}
